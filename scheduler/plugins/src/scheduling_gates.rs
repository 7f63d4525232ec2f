//! SchedulingGates keeps pods with scheduling gates out of the active queue.
//!
//! Corresponds to pkg/scheduler/framework/plugins/schedulinggates.

use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, Plugin, PreEnqueue, Rejection};

pub struct SchedulingGates;

const NAME: &str = "SchedulingGates";

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, _pod: &PodInfo, event: &ClusterEvent) -> bool {
        event.pod_if_changed(|pod| pod.spec().scheduling_gates.as_ref().is_none_or(Vec::is_empty))
    }
}

impl PreEnqueue for SchedulingGates {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        let gates: Vec<&str> = pod.spec().scheduling_gates.iter().flatten().map(|gate| gate.name.as_str()).collect();
        if gates.is_empty() {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, format!("waiting for scheduling gates: [{}]", gates.join(" "))))
    }

    fn waits_for(&self, pod: &PodInfo) -> Vec<String> {
        let gates = pod.spec().scheduling_gates.iter().flatten();
        gates.map(|gate| format!("an update of the pod that removes the scheduling gate {}", gate.name)).collect()
    }
}
