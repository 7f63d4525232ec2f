//! PrioritySort orders the queue by priority. Of equal ones, the pod that has waited longer is first.
//!
//! Corresponds to pkg/scheduler/framework/plugins/queuesort.

use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Plugin, QueueSort};

pub struct PrioritySort;

impl Plugin for PrioritySort {
    fn name(&self) -> &'static str {
        "PrioritySort"
    }
}

impl QueueSort for PrioritySort {
    fn rank(&self, pod: &PodInfo) -> i64 {
        -i64::from(pod.priority)
    }
}
