//! The node IPAM controller at its edge.
//!
//! Corresponds to pkg/controller/nodeipam/ipam/range_allocator.go.

use super::cidr_set::{BadSize, CidrSet};
use crate::actions;
use crate::context::Running;
use crate::descriptor::Setup;
use crate::options::Settings;
use crate::reconcile::Reconciler;
use client::{Action, Event, Lister, Patch, Plan};
use ipnet::IpNet;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

struct Controller {
    nodes: Lister<Node>,
    ranges: Arc<Mutex<Ranges>>,
}

/// The sets that are given out of, one per address family, and what each node was given.
struct Ranges {
    sets: Vec<CidrSet>,
    /// By the node's uid. What is not written yet is here too, so that a lagging cache does not give twice.
    given: BTreeMap<String, Vec<IpNet>>,
}

#[derive(Debug)]
pub struct Observed {
    pub node: Arc<Node>,
    /// Nothing if a set ran out.
    pub parts: Option<Vec<IpNet>>,
}

pub fn sets(settings: &Settings) -> Result<Vec<CidrSet>, BadSize> {
    let prefix = |range: &IpNet| match range {
        IpNet::V4(_) => settings.node_cidr_mask_size_ipv4.unwrap_or(settings.node_cidr_mask_size),
        IpNet::V6(_) => settings.node_cidr_mask_size_ipv6,
    };
    settings.cluster_cidr.iter().map(|range| CidrSet::new(*range, prefix(range))).collect()
}

pub fn start(setup: &Setup<'_>) -> Running {
    let sets = match sets(setup.settings) {
        Ok(sets) if setup.settings.allocate_node_cidrs => sets,
        Ok(_) => return Box::pin(async {}),
        Err(error) => {
            tracing::error!(%error, "no node is given a range");
            return Box::pin(async {});
        }
    };
    let ranges = Arc::new(Mutex::new(Ranges { sets, given: BTreeMap::new() }));
    let nodes: Lister<Node> = setup.lister();
    let queue = setup.queue();
    setup.on_event(&queue, {
        let (ranges, nodes) = (ranges.clone(), nodes.clone());
        move |event: &Event<Node>, queue| {
            ranges.lock().note(event);
            queue.add(event.object().key());
            if matches!(event, Event::Deleted(_)) {
                // A range is free again for whoever waits for one.
                nodes.filter("", |node| parts_of(node).is_empty()).iter().for_each(|node| queue.add(node.key()));
            }
        }
    });
    // One worker: the ranges are given in the order in which nodes come. It starts after every node was seen, so
    // nothing is given that a node has already.
    setup.run(queue, 1, Controller { nodes, ranges })
}

/// The ranges that a node has.
fn parts_of(node: &Node) -> Vec<IpNet> {
    let spec = node.spec.as_ref();
    let several = spec.and_then(|spec| spec.pod_cidrs.clone()).filter(|parts| !parts.is_empty());
    let texts = several.or_else(|| Some(vec![spec?.pod_cidr.clone()?])).unwrap_or_default();
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Ranges {
    fn note(&mut self, event: &Event<Node>) {
        let node = event.object();
        if matches!(event, Event::Deleted(_)) {
            for part in self.given.remove(node.uid()).unwrap_or_default() {
                self.sets.iter_mut().for_each(|set| set.release(&part));
            }
            return;
        }
        let parts = parts_of(node);
        if parts.is_empty() {
            return;
        }
        // Somebody else may have written another range than was given here.
        for part in self.given.insert(node.uid().to_owned(), parts.clone()).unwrap_or_default() {
            self.sets.iter_mut().for_each(|set| set.release(&part));
        }
        for set in &mut self.sets {
            for part in &parts {
                set.occupy(part);
            }
        }
    }

    /// What the node was given before, or else a part of each set.
    fn give(&mut self, node: &Node) -> Option<Vec<IpNet>> {
        if let Some(given) = self.given.get(node.uid()) {
            return Some(given.clone());
        }
        let mut parts = Vec::with_capacity(self.sets.len());
        for i in 0..self.sets.len() {
            match self.sets[i].allocate() {
                Some(part) => parts.push(part),
                None => {
                    for part in parts {
                        self.sets.iter_mut().for_each(|set| set.release(&part));
                    }
                    return None;
                }
            }
        }
        self.given.insert(node.uid().to_owned(), parts.clone());
        Some(parts)
    }
}

pub fn plan(observed: &Observed) -> Plan {
    let node = &*observed.node;
    let action = match &observed.parts {
        Some(parts) => {
            let texts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            let patch = json!({"metadata": {"uid": node.uid()}, "spec": {"podCIDR": texts[0], "podCIDRs": texts}});
            Action::patch::<Node>("", node.name(), Patch::Strategic(patch))
        }
        None => {
            let message = format!("Node {} status is now: CIDRNotAvailable", node.name());
            actions::normal(node, "CIDRNotAvailable", message)
        }
    };
    Plan::of([action])
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let node = self.nodes.by_key(key)?;
        if !parts_of(&node).is_empty() || node.is_deleting() {
            return None;
        }
        let parts = self.ranges.lock().give(&node).filter(|parts| !parts.is_empty());
        Some(Observed { node, parts })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn ranges(range: &str) -> Ranges {
        let settings = Settings { cluster_cidr: vec![range.parse().unwrap()], ..Settings::default() };
        Ranges { sets: sets(&settings).unwrap(), given: BTreeMap::new() }
    }

    fn node(name: &str, part: Option<&str>) -> Arc<Node> {
        let mut node = fixture::node(name);
        node.spec.get_or_insert_default().pod_cidr = part.map(str::to_owned);
        Arc::new(node)
    }

    #[test]
    fn each_node_gets_a_range_of_its_own() {
        let mut ranges = ranges("10.244.0.0/16");
        ranges.note(&Event::Added(node("a", Some("10.244.0.0/24"))));
        let given = |ranges: &mut Ranges, name: &str| {
            let node = node(name, None);
            plan(&Observed { parts: ranges.give(&node), node }).to_string()
        };
        let b = "strategic patch nodes b {\"metadata\":{\"uid\":\"uid-b\"},\"spec\":{\"podCIDR\":\"10.244.1.0/24\",\"podCIDRs\":[\"10.244.1.0/24\"]}}\n";
        assert_eq!(given(&mut ranges, "b"), b);
        assert_eq!(given(&mut ranges, "b"), b, "asked again before the cache shows it");
        assert!(given(&mut ranges, "c").contains("10.244.2.0/24"));
    }

    #[test]
    fn two_families_make_two_ranges() {
        let cluster_cidr = ["10.244.0.0/16", "fd00:10:244::/48"].map(|range| range.parse().unwrap()).to_vec();
        let settings = Settings { cluster_cidr, node_cidr_mask_size_ipv4: Some(25), ..Settings::default() };
        let mut ranges = Ranges { sets: sets(&settings).unwrap(), given: BTreeMap::new() };
        let node = node("a", None);
        let given = plan(&Observed { parts: ranges.give(&node), node }).to_string();
        assert!(
            given.contains(r#""podCIDR":"10.244.0.0/25","podCIDRs":["10.244.0.0/25","fd00:10:244::/64"]"#),
            "{given}"
        );
    }

    #[test]
    fn a_range_is_free_again_when_its_node_is_gone() {
        let mut ranges = ranges("10.244.0.0/24");
        let first = node("a", None);
        assert!(ranges.give(&first).is_some());
        let second = node("b", None);
        assert_eq!(ranges.give(&second), None);
        let full = plan(&Observed { node: second.clone(), parts: None }).to_string();
        assert_eq!(full, "event Normal CIDRNotAvailable Node b: Node b status is now: CIDRNotAvailable\n");
        ranges.note(&Event::Deleted(first));
        assert!(ranges.give(&second).is_some());
    }
}
