//! PrioritySort: the more important pod goes first, and of equals the one that has waited longer.
//!
//! Corresponds to pkg/scheduler/framework/plugins/queuesort.

use crate::framework::{Plugin, QueueSort};
use crate::pod_info::PodInfo;

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
