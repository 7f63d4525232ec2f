//! Plans which pods to delete.
//!
//! Corresponds to pkg/controller/podgc/gc_controller.go.

use client::{Action, DeleteOptions, Patch, Plan};
use controller_base::{actions, clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use proto::meta::node_taints::OUT_OF_SERVICE;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    /// The pods that have ended, that are being deleted, or whose node has been deleted.
    pub pods: Vec<Arc<Pod>>,
    pub nodes: Vec<Arc<Node>>,
    /// Nodes that pods name and that do not exist, as the server has confirmed.
    pub deleted_nodes: BTreeSet<String>,
    /// Number of terminated pods that are too many. The first ones to go are among `pods`.
    pub surplus: usize,
}

/// Why a pod goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Terminated,
    OutOfService,
    Orphaned,
    Unscheduled,
}

impl Reason {
    /// Returns the value of the label `reason` of metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Terminated => "terminated",
            Reason::OutOfService => "out-of-service",
            Reason::Orphaned => "orphaned",
            Reason::Unscheduled => "unscheduled",
        }
    }
}

/// A pod that goes.
#[derive(Debug)]
pub struct Removal<'a> {
    pub pod: &'a Pod,
    pub reason: Reason,
}

/// Returns the pods that go, each once.
pub fn removals(observed: &Observed) -> Vec<Removal<'_>> {
    let surplus = surplus_terminated(&observed.pods, observed.surplus);
    let out_of_service: BTreeSet<&str> =
        observed.nodes.iter().filter(|node| is_out_of_service(node)).map(|node| node.name()).collect();
    let reason = |pod: &Pod| {
        let node = pod::node_name(pod);
        if observed.deleted_nodes.contains(node) {
            Some(Reason::Orphaned)
        } else if pod.is_deleting() && node.is_empty() {
            Some(Reason::Unscheduled)
        } else {
            (pod.is_deleting() && out_of_service.contains(node)).then_some(Reason::OutOfService)
        }
    };
    let others = observed.pods.iter().filter_map(|pod| Some(Removal { pod, reason: reason(pod)? }));
    let surplus = surplus.into_iter().map(|pod| Removal { pod, reason: Reason::Terminated });
    let mut known = BTreeSet::new();
    surplus.chain(others).filter(|removal| known.insert(removal.pod.uid().to_owned())).collect()
}

/// Returns the nodes that pods name and that the cache lacks.
pub fn missing_nodes(named: Vec<String>, nodes: &[Arc<Node>]) -> BTreeSet<String> {
    let present: BTreeSet<&str> = nodes.iter().map(|node| node.name()).collect();
    named.into_iter().filter(|name| !present.contains(&**name)).collect()
}

/// Returns how many of the terminated pods are too many. A threshold of 0 keeps all.
pub fn surplus(ended: usize, threshold: usize) -> usize {
    if threshold == 0 { 0 } else { ended.saturating_sub(threshold) }
}

/// Returns the place of a terminated pod in the order in which they go, as a text: evicted ones first, then the oldest.
pub fn turn(pod: &Pod) -> Option<String> {
    let is_evicted = || pod::status(pod).and_then(|status| status.reason.as_deref()) == Some("Evicted");
    let created_s = || pod.metadata.creation_timestamp.as_ref().map_or(0, |time| time.0.as_second());
    pod::is_terminal(pod).then(|| format!("{} {:012}", u8::from(!is_evicted()), created_s()))
}

/// Returns the terminated pods that are too many.
fn surplus_terminated(pods: &[Arc<Pod>], surplus: usize) -> Vec<&Pod> {
    let mut ended: Vec<(String, &Pod)> = pods.iter().filter_map(|pod| Some((turn(pod)?, &**pod))).collect();
    ended.sort_by_cached_key(|(turn, pod)| (turn.clone(), pod.key()));
    ended.into_iter().take(surplus).map(|(_, pod)| pod).collect()
}

/// Returns true if the node is not ready and an administrator has tainted it as out of service.
fn is_out_of_service(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_ready = conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    !is_ready && taints.into_iter().any(|taint| taint.key == OUT_OF_SERVICE)
}

/// Marks a pod that is not terminal as failed, and deletes it without a grace period: no kubelet would end it.
pub fn remove(Removal { pod, reason }: &Removal<'_>, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    if !pod::is_terminal(pod) {
        let mut status = json!({"phase": "Failed"});
        if *reason == Reason::Orphaned {
            let message = "PodGC: node no longer exists";
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": message,
                "lastTransitionTime": clock::stamp(now)
            });
            status["conditions"] = json!([condition]);
        }
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": status});
        plan.push(Action::patch_status::<Pod>(pod.namespace(), pod.name(), Patch::Strategic(patch)));
    }
    let options = DeleteOptions { grace_period_s: Some(0), ..DeleteOptions::with_uid(pod.uid()) };
    plan.push(actions::delete(*pod, options));
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn pod(name: &str, node: &str, phase: &str, deleting: bool) -> Arc<Pod> {
        let mut pod = fixture::pod(name);
        pod.spec.as_mut().unwrap().node_name = (!node.is_empty()).then(|| node.to_owned());
        fixture::set_phase(&mut pod, phase);
        pod.metadata.deletion_timestamp = deleting.then(|| fixture::time(1));
        Arc::new(pod)
    }

    fn removed(observed: &Observed) -> String {
        let delete = |removal: Removal<'_>| {
            let plan = remove(&removal, fixture::at(9));
            let Some(Action::Delete { name, options, .. }) = plan.actions.last() else { panic!("{plan}") };
            assert_eq!(options.grace_period_s, Some(0));
            format!("{name}{} ({})", if plan.actions.len() > 1 { "!" } else { "" }, removal.reason.as_str())
        };
        removals(observed).into_iter().map(delete).collect::<Vec<_>>().join(" ")
    }

    /// Returns the names of the deleted pods. An exclamation mark means that the plan marks the pod as failed.
    #[test]
    fn pods_without_a_kubelet_are_deleted() {
        let mut broken = fixture::node("broken");
        broken.spec.get_or_insert_default().taints = Some(vec![proto::kinds::api::core::v1::Taint {
            key: OUT_OF_SERVICE.to_owned(),
            effect: "NoExecute".to_owned(),
            ..Default::default()
        }]);
        let observed = Observed {
            pods: vec![
                pod("fine", "node-1", "Running", false),
                pod("ending", "node-1", "Running", true),
                pod("orphaned", "node-9", "Running", false),
                pod("orphaned-ended", "node-9", "Succeeded", false),
                pod("unplaced", "", "Pending", false),
                pod("unplaced-ending", "", "Pending", true),
                pod("on-broken", "broken", "Running", false),
                pod("on-broken-ending", "broken", "Running", true),
            ],
            nodes: vec![Arc::new(fixture::node("node-1")), Arc::new(broken)],
            deleted_nodes: BTreeSet::from(["node-9".to_owned()]),
            surplus: 0,
        };
        let expected = "orphaned! (orphaned) orphaned-ended (orphaned) unplaced-ending! (unscheduled) \
                        on-broken-ending! (out-of-service)";
        assert_eq!(removed(&observed), expected);
        let named = ["node-1", "node-9"].map(str::to_owned).to_vec();
        assert_eq!(missing_nodes(named, &observed.nodes), BTreeSet::from(["node-9".to_owned()]));
    }

    #[test]
    fn the_oldest_ended_pods_go_beyond_the_threshold() {
        let mut pods = Vec::new();
        for (name, age, reason) in
            [("young", 9, None), ("old", 1, None), ("evicted", 8, Some("Evicted")), ("older", 0, None)]
        {
            let mut pod = (*pod(name, "", "Failed", false)).clone();
            pod.metadata.creation_timestamp = Some(fixture::time(age));
            pod.status.as_mut().unwrap().reason = reason.map(str::to_owned);
            pods.push(Arc::new(pod));
        }
        let cases = [
            (0, ""),
            (9, ""),
            (3, "evicted (terminated)"),
            (1, "evicted (terminated) older (terminated) old (terminated)"),
        ];
        for (threshold, expected) in cases {
            let observed = Observed {
                pods: pods.clone(),
                nodes: Vec::new(),
                deleted_nodes: BTreeSet::new(),
                surplus: surplus(pods.len(), threshold),
            };
            assert_eq!(removed(&observed), expected, "{threshold}");
        }
        let turns: Vec<String> = pods.iter().filter_map(|pod| turn(pod)).collect();
        let mut sorted = turns.clone();
        sorted.sort();
        assert_eq!(sorted, [2, 3, 1, 0].map(|place: usize| turns[place].clone()), "evicted, older, old, young");
        assert_eq!(turn(&pod("runs", "", "Running", false)), None);
    }
}
