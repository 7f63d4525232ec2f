//! GangScheduling lets the pods of a gang be bound only if `minCount` of them have nodes.
//!
//! Corresponds to pkg/scheduler/framework/plugins/gangscheduling.

use proto::Kind;
use scheduling_framework::pod_groups::PodGroupState;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    ClusterEvent, CycleState, Permission, Permit, Plugin, PodGroups, PreEnqueue, Rejection, Reserve, WaitingPods,
};
use std::time::Duration;

pub struct GangScheduling {
    pub groups: PodGroups,
    pub waiting_pods: WaitingPods,
}

pub const NAME: &str = "GangScheduling";
/// Longest time for which a pod with a node waits for the others.
pub const PERMIT_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Why a pod with a node waits.
pub const WAITING: &str = "waiting for minCount pods from a gang to be scheduled";

impl GangScheduling {
    /// Returns the state of a pod's group; `None` for a pod without a group.
    fn state_of(&self, pod: &PodInfo) -> Option<(String, PodGroupState)> {
        let key = pod.pod_group_key()?;
        let state = self.groups.state(&key);
        Some((key, state))
    }
}

impl Plugin for GangScheduling {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Another pod of the group, or the group itself, may be what was missing. A group never changes.
    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let Some(key) = pod.pod_group_key() else { return false };
        match event {
            ClusterEvent::UnscheduledPodAdded(added) | ClusterEvent::AssignedPodAdded(added) => {
                added.pod_group_key().as_ref() == Some(&key)
            }
            ClusterEvent::PodGroupAdded(group) => group.key() == key,
            _ => false,
        }
    }
}

impl PreEnqueue for GangScheduling {
    fn pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        let Some((key, state)) = self.state_of(pod) else { return Ok(()) };
        if state.object.is_none() {
            let name = key.rsplit('/').next().unwrap_or_default();
            let why = format!("waiting for pod's pod group {name:?} to appear in scheduling queue");
            return Err(Rejection::unresolvable(NAME, why));
        }
        if state.min_count().is_some_and(|min_count| state.all < min_count) {
            let why = "waiting for minCount pods from a gang to appear in scheduling queue";
            return Err(Rejection::unresolvable(NAME, why));
        }
        Ok(())
    }

    fn waits_for(&self, pod: &PodInfo) -> Vec<String> {
        let Some((key, state)) = self.state_of(pod) else { return Vec::new() };
        match (&state.object, state.min_count()) {
            (None, _) => vec![format!("the creation of the PodGroup {key}")],
            (Some(_), Some(min_count)) if state.all < min_count => {
                let (missing, all) = (min_count - state.all, state.all);
                let pods = if missing == 1 { "1 more pod".to_owned() } else { format!("{missing} more pods") };
                vec![format!("{pods} of the PodGroup {key}, which has {all} of {min_count}")]
            }
            _ => Vec::new(),
        }
    }
}

impl Permit for GangScheduling {
    /// Lets a pod wait until its gang is complete. The pod that completes it allows those that wait.
    fn permit(&self, state: &mut CycleState, pod: &PodInfo, _node: &str) -> Result<Permission, Rejection> {
        let Some((key, group)) = self.state_of(pod) else { return Ok(Permission::Allow) };
        if group.object.is_none() {
            let name = key.rsplit('/').next().unwrap_or_default();
            let why = format!("failed to get podGroup {key}: podgroup.scheduling.k8s.io {name:?} not found");
            return Err(Rejection::unresolvable(NAME, why));
        }
        match group.min_count() {
            Some(min_count) if group.scheduled() < min_count => Ok(Permission::Wait(PERMIT_TIMEOUT)),
            Some(_) if !state.in_pod_group_cycle => {
                for uid in &group.assumed {
                    self.waiting_pods.allow(uid, NAME);
                }
                Ok(Permission::Allow)
            }
            _ => Ok(Permission::Allow),
        }
    }
}

/// Deviation: if a pod of a gang loses its node while others wait for it, they are rejected at once. In Kubernetes they
/// hold their nodes until their time is over.
impl Reserve for GangScheduling {
    fn reserve(&self, _state: &mut CycleState, _pod: &PodInfo, _node: &str) -> Result<(), Rejection> {
        Ok(())
    }

    fn unreserve(&self, state: &CycleState, pod: &PodInfo, _node: &str) {
        let Some((_, group)) = self.state_of(pod).filter(|_| !state.in_pod_group_cycle) else { return };
        if group.min_count().is_none_or(|min_count| group.scheduled() < min_count) {
            for uid in &group.assumed {
                self.waiting_pods.reject(uid, NAME, WAITING);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{gang, info, pod, pod_group};
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn plugin() -> GangScheduling {
        GangScheduling { groups: PodGroups::default(), waiting_pods: WaitingPods::default() }
    }

    fn member(name: &str, group: &str) -> Arc<PodInfo> {
        let group = if group.is_empty() { Value::Null } else { json!({"podGroupName": group}) };
        info(pod(name, "1", json!({"schedulingGroup": group})))
    }

    /// Returns why the pod may not enter the queue.
    fn queued(plugin: &GangScheduling, pod: &PodInfo) -> String {
        plugin.pre_enqueue(pod).err().map(|rejection| rejection.reasons.join(", ")).unwrap_or_default()
    }

    #[test]
    fn a_gang_enters_the_queue_when_it_is_complete() {
        let plugin = plugin();
        let (a, b, alone) = (member("a", "g"), member("b", "g"), member("alone", ""));
        plugin.groups.set_pod(&a);
        assert_eq!(queued(&plugin, &alone), "");
        assert_eq!(queued(&plugin, &a), r#"waiting for pod's pod group "g" to appear in scheduling queue"#);
        assert_eq!(plugin.waits_for(&a), ["the creation of the PodGroup shop/g"]);
        plugin.groups.set_object(gang("g", 2));
        assert_eq!(plugin.waits_for(&a), ["1 more pod of the PodGroup shop/g, which has 1 of 2"]);
        assert_eq!(queued(&plugin, &a), "waiting for minCount pods from a gang to appear in scheduling queue");
        plugin.groups.set_pod(&b);
        assert_eq!((queued(&plugin, &a), queued(&plugin, &b)), (String::new(), String::new()));
        assert_eq!(plugin.waits_for(&a), [""; 0]);
        plugin.groups.remove_pod(&b);
        assert_eq!(queued(&plugin, &a), "waiting for minCount pods from a gang to appear in scheduling queue");
        // The basic policy waits for nobody.
        plugin.groups.set_object(pod_group("g", json!({"schedulingPolicy": {"basic": {}}})));
        assert_eq!(queued(&plugin, &a), "");
    }

    #[test]
    fn the_last_pod_of_a_gang_allows_the_others() {
        let (plugin, mut state) = (plugin(), CycleState::default());
        let pods = ["a", "b", "c"].map(|name| member(name, "g"));
        pods.iter().for_each(|pod| plugin.groups.set_pod(pod));
        plugin.groups.set_object(gang("g", 2));
        plugin.groups.assume(&pods[0], "n1");
        assert_eq!(plugin.permit(&mut state, &pods[0], "n1"), Ok(Permission::Wait(PERMIT_TIMEOUT)));
        let now = component_base::env::Env::simulated(1).now();
        plugin.waiting_pods.add(pods[0].clone(), [(NAME, PERMIT_TIMEOUT)].into(), now);
        plugin.groups.assume(&pods[1], "n1");
        // A hypothetical gang allows nobody.
        state.in_pod_group_cycle = true;
        assert_eq!(plugin.permit(&mut state, &pods[1], "n1"), Ok(Permission::Allow));
        assert!(plugin.waiting_pods.reject("a", NAME, "it still waits"));
        state.in_pod_group_cycle = false;
        plugin.waiting_pods.add(pods[0].clone(), [(NAME, PERMIT_TIMEOUT)].into(), now);
        assert_eq!(plugin.permit(&mut state, &pods[1], "n1"), Ok(Permission::Allow));
        assert_eq!(plugin.permit(&mut state, &member("alone", ""), "n1"), Ok(Permission::Allow));
        plugin.groups.remove_object("shop/g");
        let missing = plugin.permit(&mut state, &pods[2], "n1").unwrap_err();
        let why = r#"failed to get podGroup shop/g: podgroup.scheduling.k8s.io "g" not found"#;
        assert_eq!(missing.reasons, [why]);
    }

    #[test]
    fn members_and_the_group_wake_a_pod() {
        let (plugin, a) = (plugin(), member("a", "g"));
        for (event, expected) in [
            (ClusterEvent::UnscheduledPodAdded(member("b", "g")), true),
            (ClusterEvent::AssignedPodAdded(member("b", "g")), true),
            (ClusterEvent::UnscheduledPodAdded(member("b", "h")), false),
            (ClusterEvent::AssignedPodDeleted(member("b", "g")), false),
            (ClusterEvent::PodGroupAdded(gang("g", 1)), true),
            (ClusterEvent::PodGroupAdded(gang("h", 1)), false),
            (ClusterEvent::VolumesChanged, false),
        ] {
            assert_eq!(plugin.may_become_schedulable(&a, &event), expected, "{event:?}");
            assert!(!plugin.may_become_schedulable(&member("alone", ""), &event));
        }
    }
}
