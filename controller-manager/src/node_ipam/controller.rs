//! Starts the node IPAM controller, and allocates and releases node CIDRs as nodes come and go.
//!
//! Corresponds to pkg/controller/nodeipam/ipam/range_allocator.go.

use super::cidr_set::{CidrSet, InvalidMaskSize};
use super::metrics::RangeMetrics;
use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Patch, Plan};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::options::Settings;
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
    shared: Arc<Shared>,
}

/// The allocator, and the metrics of what happens to its sets.
struct Shared {
    allocator: Mutex<Allocator>,
    metrics: RangeMetrics,
}

impl Shared {
    /// Lets `act` change the sets, and counts what it changed.
    fn change<T>(&self, act: impl FnOnce(&mut Allocator) -> T) -> T {
        let mut allocator = self.allocator.lock();
        let before: Vec<usize> = allocator.sets.iter().map(CidrSet::in_use).collect();
        let result = act(&mut allocator);
        for (set, before) in allocator.sets.iter_mut().zip(before) {
            let tries = set.take_tries();
            self.metrics.count(set, before, tries);
        }
        result
    }
}

/// The sets of node CIDRs, one per address family, and what each node has.
struct Allocator {
    sets: Vec<CidrSet>,
    /// CIDRs by the node's uid. Those that no cache shows yet are here too, so that no node gets a second allocation.
    allocated: BTreeMap<String, Vec<IpNet>>,
}

#[derive(Debug)]
pub struct Observed {
    pub node: Arc<Node>,
    /// The node's CIDRs; `None` if a set has no free one.
    pub cidrs: Option<Vec<IpNet>>,
}

/// Makes the set of node CIDRs of each address family, without the addresses of Services.
pub fn sets(settings: &Settings) -> Result<Vec<CidrSet>, InvalidMaskSize> {
    let prefix = |range: &IpNet| match range {
        IpNet::V4(_) => settings.node_cidr_mask_size_ipv4.unwrap_or(settings.node_cidr_mask_size),
        IpNet::V6(_) => settings.node_cidr_mask_size_ipv6,
    };
    let set = |range: &IpNet| {
        let mut set = CidrSet::new(*range, prefix(range))?;
        settings.service_cluster_ip_range.iter().for_each(|services| set.reserve(services));
        Ok(set)
    };
    settings.cluster_cidr.iter().map(set).collect()
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
    let allocator = Mutex::new(Allocator { sets, allocated: BTreeMap::new() });
    let shared = Arc::new(Shared { allocator, metrics: RangeMetrics::new(setup.env) });
    shared.change(|_| ());
    let nodes: Lister<Node> = setup.lister();
    let queue = setup.queue();
    setup.on_event(&queue, {
        let (shared, nodes) = (shared.clone(), nodes.clone());
        move |event: &Event<Node>, queue| {
            shared.change(|allocator| allocator.observe_event(event));
            queue.add(event.object().key());
            if matches!(event, Event::Deleted(_)) {
                // The released CIDR may serve a node that has none.
                nodes.filter("", |node| pod_cidrs(node).is_empty()).iter().for_each(|node| queue.add(node.key()));
            }
        }
    });
    // One worker allocates in the order in which nodes come. It starts after the informers have synced, so that no CIDR
    // is allocated that a node has already.
    setup.run(queue, 1, Controller { nodes, shared })
}

/// Returns the CIDRs in a node's spec.
fn pod_cidrs(node: &Node) -> Vec<IpNet> {
    let spec = node.spec.as_ref();
    let several = spec.and_then(|spec| spec.pod_cidrs.clone()).filter(|cidrs| !cidrs.is_empty());
    let texts = several.or_else(|| Some(vec![spec?.pod_cidr.clone()?])).unwrap_or_default();
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}

impl Allocator {
    /// Occupies the CIDRs of a node that was added or updated, and releases those of a deleted one.
    fn observe_event(&mut self, event: &Event<Node>) {
        let node = event.object();
        if matches!(event, Event::Deleted(_)) {
            for cidr in self.allocated.remove(node.uid()).unwrap_or_default() {
                self.release(&cidr);
            }
            return;
        }
        let cidrs = pod_cidrs(node);
        if cidrs.is_empty() {
            return;
        }
        // The node may have another CIDR than the allocated one, from another writer.
        for cidr in self.allocated.insert(node.uid().to_owned(), cidrs.clone()).unwrap_or_default() {
            self.release(&cidr);
        }
        for set in &mut self.sets {
            for cidr in &cidrs {
                set.occupy(cidr);
            }
        }
    }

    fn release(&mut self, cidr: &IpNet) {
        self.sets.iter_mut().for_each(|set| set.release(cidr));
    }

    /// Returns the CIDRs that were allocated to the node before, or else allocates one from each set.
    fn allocate(&mut self, node: &Node) -> Option<Vec<IpNet>> {
        if let Some(allocated) = self.allocated.get(node.uid()) {
            return Some(allocated.clone());
        }
        let mut cidrs = Vec::with_capacity(self.sets.len());
        for i in 0..self.sets.len() {
            match self.sets[i].allocate() {
                Some(cidr) => cidrs.push(cidr),
                None => {
                    cidrs.iter().for_each(|cidr| self.release(cidr));
                    return None;
                }
            }
        }
        self.allocated.insert(node.uid().to_owned(), cidrs.clone());
        Some(cidrs)
    }
}

pub fn plan(observed: &Observed) -> Plan {
    let node = &*observed.node;
    let action = match &observed.cidrs {
        Some(cidrs) => {
            let texts: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
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
        if !pod_cidrs(&node).is_empty() || node.is_deleting() {
            return None;
        }
        let cidrs = self.shared.change(|allocator| allocator.allocate(&node)).filter(|cidrs| !cidrs.is_empty());
        Some(Observed { node, cidrs })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn allocator(cluster_cidr: &str) -> Allocator {
        let settings = Settings { cluster_cidr: vec![cluster_cidr.parse().unwrap()], ..Settings::default() };
        Allocator { sets: sets(&settings).unwrap(), allocated: BTreeMap::new() }
    }

    fn node(name: &str, part: Option<&str>) -> Arc<Node> {
        let mut node = fixture::node(name);
        node.spec.get_or_insert_default().pod_cidr = part.map(str::to_owned);
        Arc::new(node)
    }

    #[test]
    fn each_node_gets_a_range_of_its_own() {
        let mut allocator = allocator("10.244.0.0/16");
        allocator.observe_event(&Event::Added(node("a", Some("10.244.0.0/24"))));
        let text = |allocator: &mut Allocator, name: &str| {
            let node = node(name, None);
            plan(&Observed { cidrs: allocator.allocate(&node), node }).to_string()
        };
        let b = "strategic patch nodes b {\"metadata\":{\"uid\":\"uid-b\"},\"spec\":{\"podCIDR\":\"10.244.1.0/24\",\"podCIDRs\":[\"10.244.1.0/24\"]}}\n";
        assert_eq!(text(&mut allocator, "b"), b);
        assert_eq!(text(&mut allocator, "b"), b, "asked again before the cache shows it");
        assert!(text(&mut allocator, "c").contains("10.244.2.0/24"));
    }

    #[test]
    fn ranges_in_use_are_counted() {
        let env = component_base::env::Env::simulated(1);
        let shared = Shared { allocator: Mutex::new(allocator("10.244.0.0/22")), metrics: RangeMetrics::new(&env) };
        let there = node("a", Some("10.244.0.0/24"));
        shared.change(|allocator| allocator.observe_event(&Event::Added(there.clone())));
        shared.change(|allocator| allocator.observe_event(&Event::Added(there.clone())));
        shared.change(|allocator| allocator.allocate(&node("b", None)));
        shared.change(|allocator| allocator.observe_event(&Event::Deleted(there)));
        let text = env.metrics().encode();
        let of_range = "{clusterCIDR=\"10.244.0.0/22\"}";
        for line in [
            format!("node_ipam_controller_cidrset_cidrs_allocations_total{of_range} 2"),
            format!("node_ipam_controller_cidrset_cidrs_releases_total{of_range} 1"),
            format!("node_ipam_controller_cirdset_max_cidrs{of_range} 4"),
            format!("node_ipam_controller_cidrset_usage_cidrs{of_range} 0.25"),
            format!("node_ipam_controller_cidrset_allocation_tries_per_request_sum{of_range} 1.0"),
            format!("node_ipam_controller_cidrset_allocation_tries_per_request_count{of_range} 1"),
        ] {
            assert!(text.lines().any(|written| written == line), "no {line} in\n{text}");
        }
    }

    #[test]
    fn no_node_gets_addresses_of_services() {
        let range = |text: &str| vec![text.parse().unwrap()];
        let (cluster_cidr, service_cluster_ip_range) = (range("10.0.0.0/16"), range("10.0.0.0/23"));
        let settings =
            Settings { cluster_cidr, service_cluster_ip_range, node_cidr_mask_size: 24, ..Settings::default() };
        let mut allocator = Allocator { sets: sets(&settings).unwrap(), allocated: BTreeMap::new() };
        assert_eq!(allocator.allocate(&node("a", None)), Some(range("10.0.2.0/24")));
    }

    #[test]
    fn two_families_make_two_ranges() {
        let cluster_cidr = ["10.244.0.0/16", "fd00:10:244::/48"].map(|range| range.parse().unwrap()).to_vec();
        let settings = Settings { cluster_cidr, node_cidr_mask_size_ipv4: Some(25), ..Settings::default() };
        let mut allocator = Allocator { sets: sets(&settings).unwrap(), allocated: BTreeMap::new() };
        let node = node("a", None);
        let text = plan(&Observed { cidrs: allocator.allocate(&node), node }).to_string();
        assert!(
            text.contains(r#""podCIDR":"10.244.0.0/25","podCIDRs":["10.244.0.0/25","fd00:10:244::/64"]"#),
            "{text}"
        );
    }

    #[test]
    fn a_range_is_free_again_when_its_node_is_gone() {
        let mut allocator = allocator("10.244.0.0/24");
        let first = node("a", None);
        assert!(allocator.allocate(&first).is_some());
        let second = node("b", None);
        assert_eq!(allocator.allocate(&second), None);
        let full = plan(&Observed { node: second.clone(), cidrs: None }).to_string();
        assert_eq!(full, "event Normal CIDRNotAvailable Node b: Node b status is now: CIDRNotAvailable\n");
        allocator.observe_event(&Event::Deleted(first));
        assert!(allocator.allocate(&second).is_some());
    }
}
