//! Fragmentation of GPUs as FGD defines it ("Beware of Fragmentation", USENIX ATC 2023): `component_helpers::gpu_sharing` has
//! the formula. The workload is that of the run.

use crate::amounts::CPU;
use crate::record::PodCreated;
use component_helpers::gpu_sharing::{GpuNeed, Popularity, Task};

/// Counts the pods of a run.
pub fn popularity<'p>(pods: impl Iterator<Item = &'p PodCreated>) -> Popularity {
    Popularity::of(pods.map(task))
}

fn task(pod: &PodCreated) -> Task {
    let milli_cpu = pod.requests.get(CPU).copied().unwrap_or_default();
    Task { milli_cpu, gpus: (pod.gpu_count > 0).then(|| need(pod)) }
}

/// Returns what a pod needs of GPUs.
pub fn need(pod: &PodCreated) -> GpuNeed {
    GpuNeed { count: pod.gpu_count, milli: pod.gpu_milli, models: pod.gpu_models.clone() }
}
