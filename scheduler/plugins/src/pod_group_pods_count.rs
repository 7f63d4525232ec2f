//! PodGroupPodsCount prefers the placement in which more pods of the group run.
//!
//! Corresponds to pkg/scheduler/framework/plugins/podgrouppodscount.

use scheduling_framework::placement::{Assignments, GroupInCycle};
use scheduling_framework::profile::normalize_to_highest;
use scheduling_framework::{PlacementScore, Plugin};

pub struct PodGroupPodsCount;

impl Plugin for PodGroupPodsCount {
    fn name(&self) -> &'static str {
        "PodGroupPodsCount"
    }
}

impl PlacementScore for PodGroupPodsCount {
    fn score_placement(&self, group: &GroupInCycle<'_>, assignments: &Assignments<'_>) -> i64 {
        let count = group.groups.state(group.key).scheduled() + assignments.proposed.len();
        i64::try_from(count).unwrap_or(i64::MAX)
    }

    fn normalize_placements(&self, scores: &mut [i64]) {
        normalize_to_highest(scores, false);
    }
}
