//! `NodePods`: a node, what is decided for it, and the DaemonSet's pods on it.
//!
//! Corresponds to getNodesToDaemonPods, podByCreationTimestampAndPhase and findUpdatedPodsOnNode in
//! pkg/controller/daemon.

use super::daemon_pod::{is_updated, target_node};
use super::observe::Observed;
use super::placement::{Decision, Placement};
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::apps::v1::DaemonSet;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeMap;

#[derive(Debug)]
pub struct NodePods<'a> {
    pub node: &'a str,
    /// `None` if the node does not exist.
    pub decision: Option<Decision>,
    /// Without pods that have ended and are being deleted, for which there is nothing left to do. Pods that are
    /// scheduled come first, and older ones before younger ones.
    pub pods: Vec<&'a Pod>,
}

/// At most one pod of the present revision, and at most one of another; both without pods that are being deleted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair<'a> {
    pub new: Option<&'a Pod>,
    pub old: Option<&'a Pod>,
}

/// Returns all nodes in the order of their names, and after them the absent ones on which there are pods.
pub fn group(observed: &Observed) -> Vec<NodePods<'_>> {
    let placement = Placement::of(&observed.set);
    let mut pods_of: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in observed.pods.owned.iter().filter(|pod| !(pod::is_terminal(pod) && pod.is_deleting())) {
        if let Some(node) = target_node(pod) {
            pods_of.entry(node).or_default().push(pod);
        }
    }
    for pods in pods_of.values_mut() {
        pods.sort_by_key(|pod| (pod::node_name(pod).is_empty(), &pod.metadata.creation_timestamp, pod.name()));
    }
    let mut nodes: Vec<NodePods<'_>> = Vec::with_capacity(observed.nodes.len());
    for node in &observed.nodes {
        let pods = pods_of.remove(node.name()).unwrap_or_default();
        nodes.push(NodePods { node: node.name(), decision: Some(placement.decide(node)), pods });
    }
    nodes.extend(pods_of.into_iter().map(|(node, pods)| NodePods { node, decision: None, pods }));
    nodes
}

/// Returns the number of nodes on which a pod is to run.
pub fn desired(nodes: &[NodePods<'_>]) -> usize {
    nodes.iter().filter(|node| node.runs()).count()
}

impl<'a> NodePods<'a> {
    pub fn runs(&self) -> bool {
        self.decision == Some(Decision::Run)
    }

    /// Returns the new and the old pod; `None` if there are several of a kind, which the next round cleans up.
    pub fn pair(&self, hash: &str, set: &DaemonSet) -> Option<Pair<'a>> {
        let mut pair = Pair { new: None, old: None };
        for pod in self.pods.iter().filter(|pod| !pod.is_deleting()) {
            let place = if is_updated(pod, hash, set) { &mut pair.new } else { &mut pair.old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some(pair)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{daemon_set, observed, pod};
    use super::*;
    use controller_base::fixture;

    #[test]
    fn pods_are_grouped_by_the_node_that_they_are_for() {
        let mut old = pod("d", "n1", "old");
        old.metadata.creation_timestamp = Some(fixture::time(-9));
        let pods = vec![
            pod("a", "n1", "new unscheduled"),
            pod("b", "n1", "new"),
            pod("c", "n1", "new"),
            old,
            pod("e", "n2", "new failed deleting"),
            pod("f", "gone", "new"),
            fixture::pod("for-no-node"),
        ];
        let observed = observed(daemon_set("logs", "nginx:1"), &["n1", "n2!", "n3!!"], pods);
        let grouped: Vec<_> = group(&observed)
            .iter()
            .map(|node| (node.node, node.decision, node.pods.iter().map(|pod| pod.name()).collect::<String>()))
            .collect();
        let expected = [
            ("n1", Some(Decision::Run), "dbca"),
            ("n2", Some(Decision::Continue), ""),
            ("n3", Some(Decision::Stop), ""),
            ("gone", None, "f"),
        ];
        assert_eq!(grouped, expected.map(|(node, decision, pods)| (node, decision, pods.to_owned())));
        assert_eq!(desired(&group(&observed)), 1);
    }

    #[test]
    fn a_pair_is_one_new_and_one_old_pod() {
        let pair = |words: &[&str]| {
            let pods = words.iter().map(|words| pod(words, "n1", words)).collect();
            let observed = observed(daemon_set("logs", "nginx:1"), &["n1"], pods);
            let nodes = group(&observed);
            let pair = nodes[0].pair("new", &observed.set)?;
            Some((pair.new.map(|pod| pod.name().to_owned()), pair.old.map(|pod| pod.name().to_owned())))
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(pair(&[]), Some((None, None)));
        assert_eq!(pair(&["new", "old"]), Some((some("new"), some("old"))));
        assert_eq!(pair(&["new", "new deleting", "old deleting"]), Some((some("new"), None)));
        assert_eq!(pair(&["old", "old ready"]), None);
    }
}
