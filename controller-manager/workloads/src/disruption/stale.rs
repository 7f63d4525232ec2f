//! Resets the condition DisruptionTarget of pods that were not disrupted within two minutes.
//!
//! Corresponds to syncStalePodDisruption in pkg/controller/disruption/disruption.go.

use client::reconcile::Reconciler;
use client::{Action, Lister, Patch, Plan};
use controller_base::{clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodCondition};
use serde_json::json;
use std::sync::Arc;

const TIMEOUT_S: i64 = 120;
const DISRUPTION_TARGET: &str = "DisruptionTarget";
/// Reason of a disruption by the kubelet, which has no time limit.
const BY_KUBELET: &str = "TerminationByKubelet";

/// Reconciles pods with the condition DisruptionTarget.
pub struct StaleDisruptions {
    pub pods: Lister<Pod>,
}

/// Returns the condition DisruptionTarget of an active pod, unless its reason has no time limit.
pub fn disruption_target(pod: &Pod) -> Option<&PodCondition> {
    let condition = pod::condition(pod, DISRUPTION_TARGET)?;
    let is_open = condition.status == "True" && condition.reason.as_deref() != Some(BY_KUBELET);
    (is_open && pod::is_active(pod)).then_some(condition)
}

impl Reconciler for StaleDisruptions {
    type Observed = Arc<Pod>;

    fn observe(&self, key: &str) -> Option<Arc<Pod>> {
        self.pods.by_key(key)
    }

    fn plan(&self, pod: &Arc<Pod>, now: Timestamp) -> Plan {
        plan(pod, now)
    }
}

pub fn plan(pod: &Pod, now: Timestamp) -> Plan {
    let Some(since) = disruption_target(pod).and_then(|condition| condition.last_transition_time.as_ref()) else {
        return Plan::default();
    };
    let end = clock::after(since.0, TIMEOUT_S);
    if now < end {
        return Plan { actions: Vec::new(), requeue_after: Some(clock::until(end, now)) };
    }
    let condition = json!({
        "type": DISRUPTION_TARGET, "status": "False", "reason": null, "message": null,
        "lastTransitionTime": clock::stamp(now)
    });
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [condition]}});
    Plan::of([Action::patch_status::<Pod>(pod.namespace(), pod.name(), Patch::Strategic(patch))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn the_condition_of_an_undisrupted_pod_is_reset() {
        let cases = [
            // status, reason, phase, deleting, second => look again in seconds, patched
            ("True", "EvictionByEvictionAPI", "Running", false, 50, Some(80), false),
            ("True", "EvictionByEvictionAPI", "Running", false, 130, None, true),
            ("True", "EvictionByEvictionAPI", "Running", true, 130, None, false),
            ("True", "EvictionByEvictionAPI", "Failed", false, 130, None, false),
            ("True", BY_KUBELET, "Running", false, 130, None, false),
            ("False", "EvictionByEvictionAPI", "Running", false, 130, None, false),
        ];
        for (status, reason, phase, deleting, second, after_s, is_patched) in cases {
            let mut pod = fixture::pod("web");
            fixture::set_phase(&mut pod, phase);
            fixture::set_condition(&mut pod, DISRUPTION_TARGET, status, fixture::at(10));
            pod.status.as_mut().unwrap().conditions.as_mut().unwrap()[0].reason = Some(reason.to_owned());
            pod.metadata.deletion_timestamp = deleting.then(|| fixture::time(20));
            let plan = plan(&pod, fixture::at(second));
            assert_eq!(plan.requeue_after.map(|after| after.as_secs()), after_s, "{status} {reason} {phase}");
            assert_eq!(!plan.is_empty(), is_patched, "{status} {reason} {phase}");
        }
    }
}
