//! The rule that a pod never changes its node, and that no node is overcommitted.

use super::fields::{Node, Pod, milli};
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::BTreeMap;

const NODES: &str = "/registry/minions/";
const PODS: &str = "/registry/pods/";
/// The resources that are summed, besides the number of pods.
const COUNTED: [&str; 2] = ["cpu", "memory"];

#[derive(Default)]
pub struct Nodes {
    allocatable: BTreeMap<String, BTreeMap<String, String>>,
    pods: BTreeMap<String, BoundPod>,
    /// Sum of the pods' requests on each node in thousandths. A pod requests 1000 thousandths of the resource `pods`.
    requested: BTreeMap<String, BTreeMap<&'static str, i64>>,
}

struct BoundPod {
    uid: String,
    node: String,
    /// Requests of the pod; empty once it has ended.
    requests: BTreeMap<&'static str, i64>,
}

impl Nodes {
    fn add(&mut self, bound: &BoundPod, sign: i64) {
        let requested = self.requested.entry(bound.node.clone()).or_default();
        for (resource, amount) in &bound.requests {
            *requested.entry(resource).or_default() += sign * amount;
        }
    }

    fn check_pod(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let pod: Option<Pod> = read(key, value)?;
        let before = self.pods.remove(key);
        if let Some(before) = &before {
            self.add(before, -1);
        }
        let Some(pod) = pod else { return Ok(()) };
        if let Some(before) =
            before.filter(|before| before.uid == pod.metadata.uid && before.node != pod.spec.node_name)
        {
            let (old, new) = (&before.node, &pod.spec.node_name);
            return Err(RuleViolation::new(format!("{key} was bound to {old} and now is to {new:?}")));
        }
        if pod.spec.node_name.is_empty() {
            return Ok(());
        }
        let mut requests = BTreeMap::new();
        if !pod.has_ended() {
            requests.extend(COUNTED.map(|resource| (resource, pod.requested_milli(resource))));
            requests.insert("pods", 1000);
        }
        let bound = BoundPod { uid: pod.metadata.uid, node: pod.spec.node_name, requests };
        let node = bound.node.clone();
        self.add(&bound, 1);
        self.pods.insert(key.to_owned(), bound);
        self.check_node(&node)
    }

    fn check_node(&self, node: &str) -> Result<(), RuleViolation> {
        let (Some(requested), Some(allocatable)) = (self.requested.get(node), self.allocatable.get(node)) else {
            return Ok(());
        };
        for (resource, amount) in requested {
            let has = allocatable.get(*resource).map_or(0, |text| milli(text));
            if *amount > has {
                let what = format!("node {node} has {has} thousandths of {resource} and promised {amount}");
                let pods = self.pods.iter().filter(|(_, bound)| bound.node == node);
                let concerned = std::iter::once(format!("{NODES}{node}")).chain(pods.map(|(key, _)| key.clone()));
                return Err(RuleViolation::about(what, concerned));
            }
        }
        Ok(())
    }
}

impl Rule for Nodes {
    fn prefixes(&self) -> &'static [&'static str] {
        &[NODES, PODS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        let Some(name) = key.strip_prefix(NODES) else { return self.check_pod(key, value) };
        match read::<Node>(key, value)? {
            Some(node) => self.allocatable.insert(name.to_owned(), node.status.allocatable),
            None => self.allocatable.remove(name),
        };
        Ok(())
    }
}
