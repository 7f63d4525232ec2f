//! `Gradient`, by how much a pod makes a node more fragmented, and on which of its GPUs it does so least.
//!
//! ```text
//! Δ(n, g) = F(n with the pod on the GPUs g) − F(n)        Δ(n) = min over g of Δ(n, g)
//! ```
//!
//! F is that of `component_helpers::gpu_sharing`. A pod with one GPU is tried on each; one with several gets those that fit
//! most tightly, because such pods of the trace want whole GPUs, and those are alike.

use crate::ledger::NodeGpus;
use component_helpers::gpu_sharing::{Popularity, Task};

#[derive(Clone, Debug)]
pub struct Gradient {
    pub popularity: Popularity,
    pub task: Task,
}

/// The best GPUs of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Δ(n), in thousandths of a GPU.
    pub growth: f64,
    /// Places of the GPUs.
    pub places: Vec<usize>,
}

impl Gradient {
    /// Returns the best GPUs of a node with so much CPU left; `None` if the pod does not fit.
    pub fn step(&self, milli_cpu: i64, gpus: &NodeGpus) -> Option<Step> {
        let before = self.popularity.fragment(gpus.node_left(milli_cpu));
        let after = |places: &[usize]| {
            let mut left = gpus.left.clone();
            let milli = self.task.gpus.as_ref().map_or(0, |need| i64::from(need.milli));
            places.iter().for_each(|place| left[*place] -= milli);
            let rest = NodeGpus { model: gpus.model.clone(), left };
            self.popularity.fragment(rest.node_left(milli_cpu - self.task.milli_cpu))
        };
        let step = |places: Vec<usize>| Step { growth: after(&places) - before, places };
        match &self.task.gpus {
            None => Some(step(Vec::new())),
            Some(need) if need.count == 1 => {
                let mut places: Vec<usize> = need.fitting(&gpus.left).collect();
                // GPUs with equal rests are alike, and of equal steps the tightest is the first.
                places.sort_by_key(|place| (gpus.left[*place], *place));
                places.dedup_by_key(|place| gpus.left[*place]);
                places.into_iter().map(|place| step(vec![place])).min_by(|a, b| a.growth.total_cmp(&b.growth))
            }
            Some(need) => need.tightest(&gpus.left).map(step),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_helpers::gpu_sharing::GpuNeed;

    fn task(milli_cpu: i64, count: u32, milli: u32) -> Task {
        let need = GpuNeed { count, milli, models: Vec::new() };
        Task { milli_cpu, gpus: (count > 0).then_some(need) }
    }

    /// Half of the pods want a whole GPU and 4 CPUs, half of them 500 thousandths and 1 CPU. A node has 8 CPUs and GPUs with
    /// 1000, 600 and 500 left: 2100. F = ½ · (600 + 500) + ½ · 0 = 550.
    ///
    /// A pod of the second kind leaves 7 CPUs:
    /// - on the first, 500, 600, 500 of 1600: F = ½ · 1600 + ½ · 0 = 800, so Δ = 250;
    /// - on the second, 1000, 100, 500: F = ½ · 600 + ½ · 100 = 350, so Δ = −200;
    /// - on the third, 1000, 600, 0: F = ½ · 600 + ½ · 0 = 300, so Δ = −250: the best.
    ///
    /// A pod with 5 CPUs and no GPU leaves 3 CPUs, so that none of the first kind fits: F = ½ · 2100 + ½ · 0 = 1050, Δ = 500.
    #[test]
    fn steps_worked_by_hand() {
        let popularity = Popularity::of([task(4000, 1, 1000), task(1000, 1, 500)].into_iter());
        let gpus = NodeGpus { model: String::new(), left: vec![1000, 600, 500] };
        let step = |task: Task| Gradient { popularity: popularity.clone(), task }.step(8000, &gpus);
        assert_eq!(step(task(1000, 1, 500)), Some(Step { growth: -250.0, places: vec![2] }));
        assert_eq!(step(task(1000, 1, 1000)), Some(Step { growth: 0.0, places: vec![0] }));
        assert_eq!(step(task(5000, 0, 0)), Some(Step { growth: 500.0, places: vec![] }));
        assert_eq!(step(task(0, 2, 1000)), None);
        // On the second and third, 1000, 100, 0 are left: F = ½ · 100 + ½ · 100 = 100.
        assert_eq!(step(task(0, 2, 500)), Some(Step { growth: -450.0, places: vec![1, 2] }));
    }
}
