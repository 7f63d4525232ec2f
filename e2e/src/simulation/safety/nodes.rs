//! The rule that a pod never changes its node, and that no node is overcommitted.

use super::seen::{Node, Pod, milli};
use super::{Complaint, Rule, When, read};
use std::collections::BTreeMap;

const NODES: &str = "/registry/minions/";
const PODS: &str = "/registry/pods/";
const COUNTED: [&str; 2] = ["cpu", "memory"];

#[derive(Default)]
pub struct Nodes {
    allocatable: BTreeMap<String, BTreeMap<String, String>>,
    pods: BTreeMap<String, Bound>,
    /// Sum of the pods' requests on each node, with `pods`, in thousandths.
    promised: BTreeMap<String, BTreeMap<&'static str, i64>>,
}

struct Bound {
    uid: String,
    node: String,
    /// Requests of the pod; empty once it has ended.
    asks: BTreeMap<&'static str, i64>,
}

impl Nodes {
    fn add(&mut self, bound: &Bound, sign: i64) {
        let promised = self.promised.entry(bound.node.clone()).or_default();
        for (resource, amount) in &bound.asks {
            *promised.entry(resource).or_default() += sign * amount;
        }
    }

    fn judge_pod(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Complaint> {
        let pod: Option<Pod> = read(key, value)?;
        let known = self.pods.remove(key);
        if let Some(known) = &known {
            self.add(known, -1);
        }
        let Some(pod) = pod else { return Ok(()) };
        if let Some(known) = known.filter(|known| known.uid == pod.metadata.uid && known.node != pod.spec.node_name) {
            let (old, new) = (&known.node, &pod.spec.node_name);
            return Err(Complaint::new(format!("{key} was bound to {old} and now is to {new:?}")));
        }
        if pod.spec.node_name.is_empty() {
            return Ok(());
        }
        let mut asks = BTreeMap::new();
        if !pod.has_ended() {
            asks.extend(COUNTED.map(|resource| (resource, pod.requested_milli(resource))));
            asks.insert("pods", 1000);
        }
        let bound = Bound { uid: pod.metadata.uid, node: pod.spec.node_name, asks };
        let node = bound.node.clone();
        self.add(&bound, 1);
        self.pods.insert(key.to_owned(), bound);
        self.judge_node(&node)
    }

    fn judge_node(&self, node: &str) -> Result<(), Complaint> {
        let (Some(promised), Some(allocatable)) = (self.promised.get(node), self.allocatable.get(node)) else {
            return Ok(());
        };
        for (resource, amount) in promised {
            let has = allocatable.get(*resource).map_or(0, |text| milli(text));
            if *amount > has {
                let what = format!("node {node} has {has} thousandths of {resource} and promised {amount}");
                let pods = self.pods.iter().filter(|(_, bound)| bound.node == node);
                let concerned = std::iter::once(format!("{NODES}{node}")).chain(pods.map(|(key, _)| key.clone()));
                return Err(Complaint::about(what, concerned));
            }
        }
        Ok(())
    }
}

impl Rule for Nodes {
    fn prefixes(&self) -> &'static [&'static str] {
        &[NODES, PODS]
    }

    fn judge(&mut self, key: &str, value: Option<&[u8]>, _: When<'_>) -> Result<(), Complaint> {
        let Some(name) = key.strip_prefix(NODES) else { return self.judge_pod(key, value) };
        match read::<Node>(key, value)? {
            Some(node) => self.allocatable.insert(name.to_owned(), node.status.allocatable),
            None => self.allocatable.remove(name),
        };
        Ok(())
    }
}
