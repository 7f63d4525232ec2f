//! `Slices`: all published ResourceSlices, arranged by node and by pool.
//!
//! Corresponds to NewAllocator of the structured allocator.

use crate::device::{Device, counters};
use proto::Kind;
use proto::kinds::api::resource::v1::ResourceSlice;
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolId {
    pub driver: String,
    pub pool: String,
}

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.driver, self.pool)
    }
}

/// A slice with its devices and counters parsed.
#[derive(Debug)]
pub struct Slice {
    pub object: Arc<ResourceSlice>,
    pub devices: Vec<Arc<Device>>,
    /// The shared counters that the slice declares, by set.
    pub counter_sets: Vec<(String, BTreeMap<String, Quantity>)>,
}

impl Slice {
    fn new(object: Arc<ResourceSlice>) -> Self {
        let sets = object.spec.shared_counters.iter().flatten();
        let counter_sets = sets.map(|set| (set.name.clone(), counters(&set.counters)));
        Self { counter_sets: counter_sets.collect(), devices: Device::of_slice(&object), object }
    }

    pub fn pool_id(&self) -> PoolId {
        let spec = &self.object.spec;
        PoolId { driver: spec.driver.clone(), pool: spec.pool.name.clone() }
    }

    pub fn generation(&self) -> i64 {
        self.object.spec.pool.generation
    }
}

/// Lists of slices are in the order of their names.
#[derive(Debug, Default)]
pub struct Slices {
    by_name: BTreeMap<String, Arc<Slice>>,
    by_node: BTreeMap<String, Vec<Arc<Slice>>>,
    /// Slices that do not name a node.
    shared: Vec<Arc<Slice>>,
    by_pool: BTreeMap<PoolId, Vec<Arc<Slice>>>,
}

impl Slices {
    /// Arranges slices. Those that `before` has already parsed are not parsed again.
    pub fn new(objects: impl IntoIterator<Item = Arc<ResourceSlice>>, before: &Self) -> Self {
        let mut slices = Self::default();
        for object in objects {
            let known = before.by_name.get(object.name()).filter(|known| Arc::ptr_eq(&known.object, &object));
            let name = object.name().to_owned();
            let slice = known.cloned().unwrap_or_else(|| Arc::new(Slice::new(object)));
            slices.by_name.insert(name, slice);
        }
        for slice in slices.by_name.values() {
            slices.by_pool.entry(slice.pool_id()).or_default().push(slice.clone());
            match slice.object.spec.node_name.as_deref().unwrap_or_default() {
                "" => slices.shared.push(slice.clone()),
                node => slices.by_node.entry(node.to_owned()).or_default().push(slice.clone()),
            }
        }
        slices
    }

    /// Returns the slices that may concern a node.
    pub fn of_node<'a>(&'a self, node: &str) -> impl Iterator<Item = &'a Arc<Slice>> {
        self.by_node.get(node).into_iter().flatten().chain(&self.shared)
    }

    pub fn of_pool(&self, id: &PoolId) -> &[Arc<Slice>] {
        self.by_pool.get(id).map(Vec::as_slice).unwrap_or_default()
    }
}
