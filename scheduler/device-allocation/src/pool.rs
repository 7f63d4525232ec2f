//! `Pool`: the devices of one driver's pool, as far as they are in reach of a node, and `Reach`, all of them.
//!
//! Corresponds to GatherPools of the structured allocator.

use crate::device::{CounterSets, Device};
use crate::slices::{PoolId, Slice, Slices};
use component_helpers::scheduling::node_selector::selector_matches;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeSelector};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Whether devices of a pool can be allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolState {
    Usable,
    /// The driver is still publishing slices of the newest generation.
    Incomplete,
    /// The slices contradict each other.
    Invalid(String),
}

#[derive(Debug)]
pub struct Pool {
    pub id: PoolId,
    pub state: PoolState,
    /// Devices in reach of the node; none unless the pool is usable.
    pub devices: Vec<Arc<Device>>,
    /// The other devices, whose allocations use up the same counters.
    pub out_of_reach: Vec<Arc<Device>>,
    pub counters: CounterSets,
}

impl Pool {
    fn unusable(id: PoolId, state: PoolState) -> Self {
        let (devices, out_of_reach) = (Vec::new(), Vec::new());
        Self { id, state, devices, out_of_reach, counters: CounterSets::new() }
    }

    fn has_binding_conditions(&self) -> bool {
        self.devices.iter().any(|device| device.has_binding_conditions())
    }
}

/// A device that may be allocated on the node.
#[derive(Debug)]
pub struct Candidate {
    pub device: Arc<Device>,
    /// Number of its pool.
    pub pool: usize,
}

/// The pools and devices in reach of a node.
#[derive(Debug)]
pub struct Reach {
    pub pools: Vec<Pool>,
    /// The devices in the order in which they are tried.
    pub candidates: Vec<Candidate>,
}

impl Reach {
    pub fn of(slices: &Slices, node: &Node) -> Self {
        let pools = gather(slices, node);
        let numbered = pools.iter().enumerate();
        let candidates = numbered
            .flat_map(|(pool, it)| it.devices.iter().map(move |device| Candidate { device: device.clone(), pool }));
        Self { candidates: candidates.collect(), pools }
    }
}

/// Returns the pools that have slices for the node. Slices of an older generation of a pool are ignored. Pools come in the
/// order of their names, and those whose devices have binding conditions come last.
pub fn gather(slices: &Slices, node: &Node) -> Vec<Pool> {
    let mut newest: BTreeMap<PoolId, Vec<&Arc<Slice>>> = BTreeMap::new();
    for slice in slices.of_node(node.name()).filter(|slice| concerns(slice, node)) {
        let members = newest.entry(slice.pool_id()).or_default();
        match members.first().map(|member| member.generation()) {
            Some(generation) if slice.generation() < generation => {}
            Some(generation) if slice.generation() > generation => *members = vec![slice],
            _ => members.push(slice),
        }
    }
    let mut pools: Vec<Pool> =
        newest.into_iter().filter_map(|(id, members)| gather_one(slices, node, id, &members)).collect();
    pools.sort_by_key(Pool::has_binding_conditions);
    pools
}

/// Returns one pool; `None` if the driver has published a newer generation without slices for the node.
fn gather_one(slices: &Slices, node: &Node, id: PoolId, members: &[&Arc<Slice>]) -> Option<Pool> {
    let first = members.first()?;
    let published = slices.of_pool(&id);
    if published.iter().any(|slice| slice.generation() > first.generation()) {
        return None;
    }
    let all: Vec<&Arc<Slice>> = published.iter().filter(|slice| slice.generation() == first.generation()).collect();
    let expected = first.object.spec.pool.resource_slice_count;
    if i64::try_from(all.len()) != Ok(expected) {
        return Some(Pool::unusable(id, PoolState::Incomplete));
    }
    Some(match build(node, &id, members, &all) {
        Ok(pool) => pool,
        Err(why) => Pool::unusable(id, PoolState::Invalid(why)),
    })
}

/// Builds a pool of `members`, the slices for the node, and `all` slices of the pool.
fn build(node: &Node, id: &PoolId, members: &[&Arc<Slice>], all: &[&Arc<Slice>]) -> Result<Pool, String> {
    let mut names = BTreeSet::new();
    for device in members.iter().flat_map(|slice| &slice.devices) {
        if !names.insert(&device.id.device) {
            return Err(format!("duplicate device name {}", device.id.device));
        }
    }
    let mut counters = CounterSets::new();
    for (name, set) in members.iter().flat_map(|slice| &slice.counter_sets) {
        if counters.insert(name.clone(), set.clone()).is_some() {
            return Err(format!("duplicate counter set name {name}"));
        }
    }
    for device in all.iter().flat_map(|slice| &slice.devices) {
        check_consumption(device, &counters)?;
    }
    let (devices, mut out_of_reach): (Vec<_>, Vec<_>) =
        members.iter().flat_map(|slice| &slice.devices).cloned().partition(|device| is_in_reach(device, node));
    let is_member = |slice: &Arc<Slice>| members.iter().any(|member| Arc::ptr_eq(member, slice));
    let others = all.iter().filter(|slice| !is_member(slice)).flat_map(|slice| &slice.devices);
    out_of_reach.extend(others.cloned());
    Ok(Pool { id: id.clone(), state: PoolState::Usable, devices, out_of_reach, counters })
}

/// Checks that a device consumes counters that its pool has.
fn check_consumption(device: &Device, counters: &CounterSets) -> Result<(), String> {
    for (name, consumed) in &device.consumes {
        let set = counters.get(name).ok_or_else(|| format!("counter set {name} not found"))?;
        if let Some(counter) = consumed.keys().find(|counter| !set.contains_key(*counter)) {
            return Err(format!("counter {counter} not found in counter set {name}"));
        }
    }
    Ok(())
}

/// Returns true if a slice has something for the node. Counters are needed wherever devices consume them.
fn concerns(slice: &Slice, node: &Node) -> bool {
    !slice.counter_sets.is_empty() || is_for_node(slice, node)
}

/// Returns true if a slice may have devices in reach of the node.
pub fn is_for_node(slice: &Slice, node: &Node) -> bool {
    let spec = &slice.object.spec;
    match spec.per_device_node_selection {
        Some(true) => slice.devices.iter().any(|device| is_in_reach(device, node)),
        _ => selects(node, spec.node_name.as_deref(), spec.all_nodes, spec.node_selector.as_ref()),
    }
}

/// Returns true if a device of a slice that concerns the node is in reach of it.
pub fn is_in_reach(device: &Device, node: &Node) -> bool {
    let own = device.spec();
    device.slice().per_device_node_selection != Some(true)
        || selects(node, own.node_name.as_deref(), own.all_nodes, own.node_selector.as_ref())
}

fn selects(node: &Node, name: Option<&str>, all: Option<bool>, selector: Option<&NodeSelector>) -> bool {
    match name.filter(|name| !name.is_empty()) {
        Some(name) => name == node.name(),
        None => all == Some(true) || selector.is_some_and(|selector| selector_matches(selector, node)),
    }
}
