//! `Gang` starts the pods of a gang together. A pod names its gang in the label `orrery.dev/gang`, and the number of its pods in
//! the annotation of that name, so that no PodGroup and no gate is needed.
//!
//! ```text
//! PreFilter  rejects a pod unless sum over nodes of min over r of ⌊free(n, r) / request(r)⌋ ≥ pods of the gang without a node
//! Score      number of pods of the gang on the node: few nodes for a gang, as tight as Themis and Tiresias want it
//! Permit     waits until every pod of the gang has a node; one that gives its node up gives up those of all that wait
//! ```
//!
//! Corresponds to the plugin Coscheduling of k8s.io/scheduler-plugins, and to gang scheduling since Ousterhout ("Scheduling
//! Techniques for Concurrent Systems", 1982). A gang whose pods ask for different amounts passes PreFilter by the amounts of
//! the pod that is tried. A pod that comes back after others of its gang have finished waits for them in vain.

use crate::best_first::best_first;
use component_helpers::scheduling::requests::Resources;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    ClusterEvent, CycleState, FeasibleNodes, Permission, Permit, Plugin, PreFilter, PreFilterResult, Rejection,
    Reserve, Score, WaitingPods,
};
use serde::Deserialize;
use std::time::Duration;

pub const NAME: &str = "Gang";

/// Label with a pod's gang, and annotation with the number of its pods.
const GANG: &str = "orrery.dev/gang";
/// Why pods of a gang lose their nodes.
const INCOMPLETE: &str = "another pod of the gang has given its node up";

/// Arguments of the plugin.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct GangArgs {
    /// Longest time for which a pod with a node waits for the others.
    wait_seconds: u32,
}

impl Default for GangArgs {
    fn default() -> Self {
        Self { wait_seconds: 300 }
    }
}

pub struct Gang {
    pub args: GangArgs,
    pub waiting_pods: WaitingPods,
}

/// A gang while one of its pods is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    size: usize,
    /// Other pods that have nodes.
    placed: usize,
}

/// Returns the namespace and name of a pod's gang.
fn gang(pod: &PodInfo) -> Option<(&str, &str)> {
    Some((pod.namespace(), pod.labels().get(GANG)?))
}

fn size(pod: &PodInfo) -> usize {
    let annotations = pod.pod.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(GANG)?.parse().ok()).unwrap_or(1)
}

fn members(node: &NodeInfo, pod: &PodInfo) -> usize {
    let Some(own) = gang(pod) else { return 0 };
    node.pods.iter().filter(|other| gang(other) == Some(own) && other.uid() != pod.uid()).count()
}

/// Returns how many pods with these requests the node still takes.
fn copies(node: &NodeInfo, requests: &Resources) -> usize {
    let free = |name: &str| node.allocatable.get(name).saturating_sub(node.requested.get(name)).max(0);
    let by_resource = requests.requested().map(|(name, amount)| free(name) / amount);
    by_resource.chain([free("pods")]).min().unwrap_or(0) as usize
}

impl Gang {
    fn waiting<'a>(&self, pod: &'a PodInfo) -> impl Iterator<Item = String> + use<'a> {
        let waiting = self.waiting_pods.list().into_iter();
        waiting.filter(|other| gang(other).is_some() && gang(other) == gang(pod)).map(|other| other.uid().to_owned())
    }
}

impl Plugin for Gang {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Returns true if room may have become free.
    fn may_become_schedulable(&self, _: &PodInfo, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::AssignedPodDeleted(_)) || event.node_change().is_some()
    }
}

impl PreFilter for Gang {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        if gang(pod).is_none() {
            state.skip_score.insert(NAME);
            return Ok(PreFilterResult::Skip);
        }
        let placed = snapshot.nodes().iter().map(|node| members(node, pod)).sum();
        let size = size(pod);
        state.write(NAME, Seen { size, placed });
        let missing = size.saturating_sub(placed);
        let room: usize = snapshot.nodes().iter().map(|node| copies(node, &pod.requests)).sum();
        match room >= missing {
            true => Ok(PreFilterResult::AllNodes),
            false => {
                let why = format!("the gang needs room for {missing} more pods, and there is room for {room}");
                Err(Rejection::unschedulable(NAME, why))
            }
        }
    }
}

impl Score for Gang {
    fn score(&self, _: &CycleState, pod: &PodInfo, node: &NodeInfo, _: &Snapshot) -> i64 {
        members(node, pod) as i64
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        best_first(scores);
    }
}

impl Permit for Gang {
    fn permit(&self, state: &mut CycleState, pod: &PodInfo, _: &str) -> Result<Permission, Rejection> {
        match state.read::<Seen>(NAME) {
            Some(Seen { size, placed }) if placed + 1 < *size => {
                Ok(Permission::Wait(Duration::from_secs(self.args.wait_seconds.into())))
            }
            Some(_) => {
                for uid in self.waiting(pod) {
                    self.waiting_pods.allow(&uid, NAME);
                }
                Ok(Permission::Allow)
            }
            None => Ok(Permission::Allow),
        }
    }
}

impl Reserve for Gang {
    fn reserve(&self, _: &mut CycleState, _: &PodInfo, _: &str) -> Result<(), Rejection> {
        Ok(())
    }

    fn unreserve(&self, _: &CycleState, pod: &PodInfo, _: &str) {
        for uid in self.waiting(pod) {
            self.waiting_pods.reject(&uid, NAME, INCOMPLETE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Nodes;
    use component_base::env::Env;
    use scheduling_framework::fixture::{info, pod};
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn member(name: &str, cpu: &str, size: usize) -> Value {
        let mut pod = pod(name, cpu, json!({}));
        pod["metadata"]["labels"][GANG] = json!("g");
        pod["metadata"]["annotations"] = json!({GANG: size.to_string()});
        pod
    }

    /// Two nodes of 4 CPUs. Pods with 3 CPUs: one on each node. Pods with 2: two on each.
    #[test]
    fn a_gang_without_room_holds_nothing() {
        let nodes = Nodes::of(&[("a", json!({})), ("b", json!({}))]);
        let mut cluster = nodes.cluster("Gang", &json!({}));
        let refused = cluster.places(member("g-0", "3", 3)).unwrap_err();
        let why = "the gang needs room for 3 more pods, and there is room for 2";
        assert!(refused.contains(why), "{refused}");
        assert!(cluster.places(member("g-0", "2", 4)).is_ok());
        // The others follow to the same node, while there is room.
        let first = cluster.node("g-0");
        assert_eq!(cluster.node_of(member("g-1", "2", 4)), first);
        assert_ne!(cluster.node_of(member("g-2", "2", 4)), first);
    }

    #[test]
    fn the_last_pod_lets_the_others_go() {
        let env = Env::simulated(1);
        let plugin = Gang { args: GangArgs::default(), waiting_pods: WaitingPods::default() };
        let (first, last) = (info(member("g-0", "1", 2)), info(member("g-1", "1", 2)));
        let mut state = CycleState::default();
        state.write(NAME, Seen { size: 2, placed: 0 });
        let permission = plugin.permit(&mut state, &first, "a").unwrap();
        assert_eq!(permission, Permission::Wait(Duration::from_secs(300)));
        plugin.waiting_pods.add(first.clone(), BTreeMap::from([(NAME, Duration::from_secs(300))]), env.now());
        assert_eq!(plugin.waiting(&last).count(), 1);
        assert_eq!(plugin.waiting(&info(pod("alone", "1", json!({})))).count(), 0);
        state.write(NAME, Seen { size: 2, placed: 1 });
        assert_eq!(plugin.permit(&mut state, &last, "a"), Ok(Permission::Allow));
    }
}
