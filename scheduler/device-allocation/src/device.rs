//! `Device`: a published device, with its quantities parsed once.
//!
//! Corresponds to the Device of k8s.io/dynamic-resource-allocation/api.

use crate::selector_verdicts::SelectorVerdicts;
use cel::Value;
use proto::kinds::api::resource::v1::{self, CapacityRequestPolicy, ResourceSlice, ResourceSliceSpec};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::{Format, Quantity};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The name of a device, which is unique in the cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    pub driver: Arc<str>,
    pub pool: Arc<str>,
    pub device: Arc<str>,
}

impl DeviceId {
    pub fn new(driver: &str, pool: &str, device: &str) -> Self {
        Self { driver: driver.into(), pool: pool.into(), device: device.into() }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// Counters by the names of their sets.
pub type CounterSets = BTreeMap<String, BTreeMap<String, Quantity>>;

/// A capacity of a device, and the rules for requests of a part of it.
#[derive(Debug)]
pub struct Capacity {
    pub value: Quantity,
    pub policy: Option<CapacityRequestPolicy>,
}

#[derive(Debug)]
pub struct Device {
    pub id: DeviceId,
    /// The value of the variable `device` in expressions.
    pub value: Value,
    /// Whether expressions match it.
    pub verdicts: SelectorVerdicts,
    pub capacity: BTreeMap<String, Capacity>,
    /// The counters that the device uses up while it is allocated.
    pub consumes: CounterSets,
    slice: Arc<ResourceSlice>,
    /// Its place in the slice.
    index: usize,
}

impl Device {
    /// Returns the devices of a slice in their order.
    pub fn of_slice(slice: &Arc<ResourceSlice>) -> Vec<Arc<Self>> {
        let pool = DeviceId::new(&slice.spec.driver, &slice.spec.pool.name, "");
        let devices = slice.spec.devices.iter().flatten().enumerate();
        devices
            .map(|(index, device)| {
                let consumed = device.consumes_counters.iter().flatten();
                let capacity = device.capacity.iter().flatten().map(|(name, capacity)| {
                    let policy = capacity.request_policy.clone();
                    (name.clone(), Capacity { value: quantity(&capacity.value), policy })
                });
                Arc::new(Self {
                    id: DeviceId { device: device.name.as_str().into(), ..pool.clone() },
                    value: cel::device::value(&pool.driver, device),
                    verdicts: SelectorVerdicts::default(),
                    capacity: capacity.collect(),
                    consumes: consumed.map(|set| (set.counter_set.clone(), counters(&set.counters))).collect(),
                    slice: slice.clone(),
                    index,
                })
            })
            .collect()
    }

    /// Returns the device as it is published.
    pub fn spec(&self) -> &v1::Device {
        let devices = self.slice.spec.devices.as_deref().unwrap_or_default();
        devices.get(self.index).expect("a device is made from its place in the slice")
    }

    pub fn slice(&self) -> &ResourceSliceSpec {
        &self.slice.spec
    }

    /// Returns true if several claims may share the device.
    pub fn is_shareable(&self) -> bool {
        self.spec().allow_multiple_allocations.unwrap_or(false)
    }

    pub fn has_binding_conditions(&self) -> bool {
        self.spec().binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
    }
}

/// Parses a quantity. The API server admits no others; one that does not parse is zero.
pub fn quantity(text: &WireQuantity) -> Quantity {
    Quantity::try_from(text).unwrap_or(Quantity::new(0, Format::DecimalSI))
}

pub fn counters(counters: &BTreeMap<String, v1::Counter>) -> BTreeMap<String, Quantity> {
    counters.iter().map(|(name, counter)| (name.clone(), quantity(&counter.value))).collect()
}
