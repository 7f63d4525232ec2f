//! Fragmentation of GPUs as FGD defines it ("Beware of Fragmentation", USENIX ATC 2023).
//!
//! A workload is a set of tasks with a popularity each. For one task, the fragment of a node is the part of its unallocated
//! GPUs that the task cannot use:
//! - all of it, if the node cannot host the task for want of CPU or GPUs, or if the task wants no GPU;
//! - otherwise what is left on those GPUs that have less than the task needs of one.
//!
//! The fragmentation of a node is the mean over the tasks, weighted by popularity. That of a cluster is the sum of its nodes.

use crate::amounts::CPU;
use crate::record::PodCreated;
use std::collections::BTreeMap;

/// What a task needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Task {
    pub cpu_milli: i64,
    pub gpu_count: u32,
    /// Thousandths of each GPU.
    pub gpu_milli: u32,
}

/// Tasks with their popularity; the sum of popularities is 1.
#[derive(Clone, Debug, Default)]
pub struct Popularity(Vec<(Task, f64)>);

impl Popularity {
    /// Counts the pods of a run.
    pub fn of<'p>(pods: impl Iterator<Item = &'p PodCreated>) -> Self {
        let mut counts: BTreeMap<Task, u64> = BTreeMap::new();
        for pod in pods {
            let cpu_milli = pod.requests.get(CPU).copied().unwrap_or_default();
            *counts.entry(Task { cpu_milli, gpu_count: pod.gpu_count, gpu_milli: pod.gpu_milli }).or_default() += 1;
        }
        let total: u64 = counts.values().sum();
        Self(counts.into_iter().map(|(task, count)| (task, count as f64 / total as f64)).collect())
    }

    /// Returns the fragmentation of a node in thousandths of a GPU. `gpus_left` has what is left of each.
    pub fn fragment(&self, cpu_left: i64, gpus_left: &[i64]) -> f64 {
        self.0.iter().map(|(task, popularity)| popularity * task.fragment(cpu_left, gpus_left) as f64).sum()
    }
}

impl Task {
    fn fragment(&self, cpu_left: i64, gpus_left: &[i64]) -> i64 {
        let needs = i64::from(self.gpu_milli);
        let places: i64 = match needs {
            0 => 0,
            // A task with one GPU uses a part of it. One with several uses each of them only once.
            needs => gpus_left.iter().filter(|left| **left >= needs).count() as i64,
        };
        let can_run = self.gpu_count > 0 && places >= i64::from(self.gpu_count) && cpu_left >= self.cpu_milli;
        match can_run {
            true => gpus_left.iter().filter(|left| **left < needs).sum(),
            false => gpus_left.iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node with 4 free cores, and GPUs with 1000, 400 and 300 thousandths left: 1700 in all.
    #[test]
    fn worked_by_hand() {
        let fragment = |cpu_milli, gpu_count, gpu_milli| {
            Task { cpu_milli, gpu_count, gpu_milli }.fragment(4000, &[1000, 400, 300])
        };
        assert_eq!(fragment(2000, 1, 400), 300, "fits; the third GPU has too little");
        assert_eq!(fragment(2000, 1, 1000), 700, "fits on the first alone");
        assert_eq!(fragment(2000, 2, 1000), 1700, "wants two whole GPUs");
        assert_eq!(fragment(8000, 1, 100), 1700, "wants more cores");
        assert_eq!(fragment(1000, 0, 0), 1700, "wants no GPU");
        assert_eq!(fragment(4000, 1, 300), 0, "can use all");
        let pod = |gpu_milli| PodCreated { gpu_count: 1, gpu_milli, ..PodCreated::default() };
        // Three of four tasks leave 300, one leaves 700.
        let popularity = Popularity::of([pod(400), pod(400), pod(1000), pod(400)].iter());
        assert_eq!(popularity.fragment(4000, &[1000, 400, 300]), 400.0);
    }
}
