//! `Placement`: decides on which nodes the pods of a DaemonSet run.
//!
//! Corresponds to NodeShouldRunDaemonPod and predicates in pkg/controller/daemon/daemon_controller.go.

use super::{daemon_pod, observe};
use client::Event;
use component_helpers::scheduling::node_selector::required_matches;
use component_helpers::scheduling::tolerations::untolerated;
use proto::Kind;
use proto::kinds::api::apps::v1::DaemonSet;
use proto::kinds::api::core::v1::{Node, PodSpec, Taint, Toleration};

/// Whether a pod of a DaemonSet runs on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A pod runs there; if there is none, one is started.
    Run,
    /// A pod that is there stays, and none is started: the node has a `NoSchedule` taint that the pod does not tolerate.
    Continue,
    /// No pod runs there; one that is there is deleted.
    Stop,
}

/// What a DaemonSet requires of a node. Made once a round, asked for every node.
pub struct Placement<'a> {
    spec: Option<&'a PodSpec>,
    tolerations: Vec<Toleration>,
}

impl<'a> Placement<'a> {
    pub fn of(set: &'a DaemonSet) -> Self {
        let spec = observe::spec(set).template.spec.as_ref();
        Self { spec, tolerations: spec.map(daemon_pod::tolerations).unwrap_or_default() }
    }

    pub fn decide(&self, node: &Node) -> Decision {
        let Some(spec) = self.spec else { return Decision::Stop };
        let wanted_name = spec.node_name.as_deref().unwrap_or_default();
        if !(wanted_name.is_empty() || wanted_name == node.name()) || !required_matches(spec, node) {
            return Decision::Stop;
        }
        if self.tolerates(node, &["NoSchedule", "NoExecute"]) {
            Decision::Run
        } else if self.tolerates(node, &["NoExecute"]) {
            Decision::Continue
        } else {
            Decision::Stop
        }
    }

    fn tolerates(&self, node: &Node, effects: &[&str]) -> bool {
        let of_effect = taints(node).iter().filter(|taint| effects.contains(&taint.effect.as_str()));
        untolerated(&self.tolerations, of_effect).is_none()
    }

    /// Returns true if an event of a node changes what a round over the DaemonSet decides for it. `has_pod` tells that a
    /// pod of the DaemonSet is on the node.
    pub fn is_concerned(&self, event: &Event<Node>, has_pod: bool) -> bool {
        match event {
            Event::Added(node) => has_pod || self.decide(node) == Decision::Run,
            Event::Updated { old, new } => self.decide(old) != self.decide(new),
            Event::Deleted(node) => has_pod || self.decide(node) != Decision::Stop,
        }
    }
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

/// Returns true if an event of a node may change a decision: decisions depend on labels and taints alone.
pub fn may_change(event: &Event<Node>) -> bool {
    match event {
        Event::Updated { old, new } => old.metadata.labels != new.metadata.labels || taints(old) != taints(new),
        Event::Added(_) | Event::Deleted(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{daemon_set, taint};
    use super::*;
    use controller_base::fixture;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn node(taints: &[(&str, &str)]) -> Node {
        let mut node = fixture::node("n1");
        node.metadata.labels = Some(fixture::labels(&[("zone", "a"), ("disk", "ssd")]));
        taints.iter().for_each(|(key, effect)| taint(&mut node, key, effect));
        node
    }

    fn set(pod_spec: Value) -> DaemonSet {
        let mut set = daemon_set("logs", "nginx:1");
        set.spec.as_mut().unwrap().template.spec = serde_json::from_value(pod_spec).unwrap();
        set
    }

    #[test]
    fn names_selectors_and_affinity_choose_nodes() {
        let in_zone = |zone: &str| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]},
            ]}}})
        };
        for (pod_spec, expected) in [
            (json!({"containers": []}), Decision::Run),
            (json!({"containers": [], "nodeName": "n1"}), Decision::Run),
            (json!({"containers": [], "nodeName": "n2"}), Decision::Stop),
            (json!({"containers": [], "nodeSelector": {"disk": "ssd"}}), Decision::Run),
            (json!({"containers": [], "nodeSelector": {"disk": "hdd"}}), Decision::Stop),
            (json!({"containers": [], "affinity": in_zone("a")}), Decision::Run),
            (json!({"containers": [], "affinity": in_zone("b")}), Decision::Stop),
            (json!({"containers": [], "affinity": in_zone("a"), "nodeSelector": {"disk": "hdd"}}), Decision::Stop),
        ] {
            assert_eq!(Placement::of(&set(pod_spec.clone())).decide(&node(&[])), expected, "{pod_spec}");
        }
    }

    #[test]
    fn taints_keep_pods_away_or_drive_them_off() {
        let tolerating = json!([{"key": "gpu", "operator": "Exists"}]);
        let cases: &[(&[(&str, &str)], Decision, Decision)] = &[
            // taints; decision for a plain pod, and for one that tolerates `gpu`
            (&[("gpu", "NoSchedule")], Decision::Continue, Decision::Run),
            (&[("gpu", "NoExecute")], Decision::Stop, Decision::Run),
            (&[("gpu", "PreferNoSchedule")], Decision::Run, Decision::Run),
            (&[("gpu", "NoSchedule"), ("other", "NoExecute")], Decision::Stop, Decision::Stop),
            (&[("node.kubernetes.io/unschedulable", "NoSchedule")], Decision::Run, Decision::Run),
            (&[("node.kubernetes.io/unreachable", "NoExecute")], Decision::Run, Decision::Run),
            (&[("node.kubernetes.io/not-ready", "NoSchedule")], Decision::Continue, Decision::Continue),
            (&[("node.kubernetes.io/network-unavailable", "NoSchedule")], Decision::Continue, Decision::Continue),
        ];
        let plain = set(json!({"containers": []}));
        let tolerating = set(json!({"containers": [], "tolerations": tolerating}));
        for (taints, for_plain, for_tolerating) in cases {
            let node = node(taints);
            assert_eq!(Placement::of(&plain).decide(&node), *for_plain, "{taints:?}");
            assert_eq!(Placement::of(&tolerating).decide(&node), *for_tolerating, "{taints:?}");
        }
        let on_host = set(json!({"containers": [], "hostNetwork": true}));
        let node = node(&[("node.kubernetes.io/network-unavailable", "NoSchedule")]);
        assert_eq!(Placement::of(&on_host).decide(&node), Decision::Run);
    }

    #[test]
    fn a_node_concerns_those_for_which_it_changes() {
        let plain = set(json!({"containers": []}));
        let on_hdd = set(json!({"containers": [], "nodeSelector": {"disk": "hdd"}}));
        let concerned = |event: &Event<Node>, has_pod: bool| {
            let is_concerned = |set: &DaemonSet| may_change(event) && Placement::of(set).is_concerned(event, has_pod);
            [is_concerned(&plain), is_concerned(&on_hdd)]
        };
        let shared = |taints: &[(&str, &str)]| Arc::new(node(taints));
        let updated = |old: Arc<Node>, new: Arc<Node>| Event::Updated { old, new };
        let (clean, tainted) = (shared(&[]), shared(&[("gpu", "NoSchedule")]));
        let mut relabelled = node(&[]);
        relabelled.metadata.labels = Some(fixture::labels(&[("disk", "hdd")]));
        let mut ready = node(&[]);
        fixture::set_node_condition(&mut ready, "Ready", "True", 9);
        for (event, has_pod, expected) in [
            (Event::Added(clean.clone()), false, [true, false]),
            (Event::Added(tainted.clone()), false, [false, false]),
            (Event::Added(tainted.clone()), true, [true, true]),
            (updated(clean.clone(), tainted.clone()), false, [true, false]),
            (updated(clean.clone(), Arc::new(relabelled)), false, [false, true]),
            (updated(clean.clone(), Arc::new(ready)), true, [false, false]),
            (Event::Deleted(clean), false, [true, false]),
            (Event::Deleted(tainted), false, [true, false]),
        ] {
            assert_eq!(concerned(&event, has_pod), expected, "{event:?}");
        }
    }
}
