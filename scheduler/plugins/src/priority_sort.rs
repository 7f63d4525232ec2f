//! PrioritySort orders the queue by priority. Of equal ones, the pod that has waited longer is first.
//!
//! Corresponds to pkg/scheduler/framework/plugins/queuesort.

use scheduling_framework::{Plugin, QueueSort, QueuedPodInfo};

pub struct PrioritySort;

impl Plugin for PrioritySort {
    fn name(&self) -> &'static str {
        "PrioritySort"
    }
}

impl QueueSort for PrioritySort {
    fn less(&self, a: &QueuedPodInfo, b: &QueuedPodInfo) -> Result<bool, String> {
        let (ours, theirs) = (a.pod_info.priority, b.pod_info.priority);
        Ok(ours > theirs || ours == theirs && a.timestamp < b.timestamp)
    }
}
