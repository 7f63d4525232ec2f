//! `World`: nodes, slices, classes and allocations from JSON, and allocations as text.

use crate::{Allocations, Allocator, MAX_STEPS, Refusal, Selectors, Slices};
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};
use serde_json::{Value, json};
use std::sync::Arc;

pub const DRIVER: &str = "gpu.example.com";

/// A node `n1` with the labels `zone: a`, and a class `gpu` for all devices of the driver.
pub struct World {
    pub slices: Vec<ResourceSlice>,
    pub classes: Vec<DeviceClass>,
    pub allocations: Allocations,
    pub max_steps: usize,
}

impl World {
    pub fn new(slices: impl IntoIterator<Item = Value>) -> Self {
        let expression = format!("device.driver == {DRIVER:?}");
        let class = json!({"spec": {"selectors": [{"cel": {"expression": expression}}]}});
        let allocations = Allocations::default();
        let mut world = Self { slices: Vec::new(), classes: Vec::new(), allocations, max_steps: MAX_STEPS };
        world.slices = slices.into_iter().map(|slice| ResourceSlice::decode_value(slice).unwrap()).collect();
        world.class("gpu", class);
        world
    }

    /// Makes a world with one slice of the node's own devices.
    pub fn of_devices(devices: Value) -> Self {
        Self::new([slice("s1", json!({"devices": devices}))])
    }

    pub fn class(&mut self, name: &str, mut class: Value) {
        class["metadata"] = json!({"name": name});
        self.classes.push(DeviceClass::decode_value(class).unwrap());
    }

    /// Gives a device to a claim that others made.
    pub fn take(&mut self, device: &str, extra: Value) {
        let mut result = json!({"request": "r", "driver": DRIVER, "pool": "p1", "device": device});
        result.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        let claim = json!({"status": {"allocation": {"devices": {"results": [result]}}}});
        let claim = ResourceClaim::decode_value(claim).unwrap();
        let owner = format!("{device} {extra}");
        self.allocations.set(&owner, claim.status.unwrap().allocation.as_ref());
    }

    pub fn allocator(&self) -> Allocator {
        let slices = self.slices.iter().cloned().map(Arc::new);
        Allocator {
            slices: Arc::new(Slices::new(slices, &Slices::default())),
            allocated: self.allocations.state(),
            changes: self.allocations.changes(),
            classes: self.classes.iter().map(|class| (class.name().to_owned(), Arc::new(class.clone()))).collect(),
            selectors: Arc::new(Selectors::default()),
            max_steps: self.max_steps,
        }
    }

    pub fn allocate(&self, claims: &[Value]) -> Result<Vec<AllocationResult>, Refusal> {
        let claims: Vec<Arc<ResourceClaim>> =
            claims.iter().map(|claim| Arc::new(ResourceClaim::decode_value(claim.clone()).unwrap())).collect();
        self.allocator().allocate(&node("n1", "a"), &claims)
    }

    /// Returns `request=device` for each device, the claims separated by a bar, or the reason why there are none.
    pub fn told(&self, claims: &[Value]) -> String {
        match self.allocate(claims) {
            Ok(allocations) => allocations.iter().map(told).collect::<Vec<_>>().join(" | "),
            Err(refusal) => refusal.to_string(),
        }
    }

    /// Checks one claim with these requests.
    pub fn check(&self, requests: Value, expected: &str) {
        assert_eq!(self.told(&[claim(json!({"requests": requests}))]), expected, "{requests}");
    }
}

fn told(allocation: &AllocationResult) -> String {
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    results.map(|result| format!("{}={}", result.request, result.device)).collect::<Vec<_>>().join(" ")
}

pub fn node(name: &str, zone: &str) -> Node {
    Node::decode_value(json!({"metadata": {"name": name, "labels": {"zone": zone}}})).unwrap()
}

/// Returns a slice of the pool `p1` on the node `n1`, with `spec` over it.
pub fn slice(name: &str, spec: Value) -> Value {
    let mut slice = json!({
        "metadata": {"name": name},
        "spec": {"driver": DRIVER, "nodeName": "n1", "pool": {"name": "p1", "generation": 1, "resourceSliceCount": 1}},
    });
    for (key, value) in spec.as_object().unwrap() {
        slice["spec"][key] = value.clone();
    }
    if slice["spec"]["nodeName"].is_null() {
        slice["spec"].as_object_mut().unwrap().remove("nodeName");
    }
    slice
}

pub fn claim(devices: Value) -> Value {
    json!({"metadata": {"namespace": "lab", "name": "c"}, "spec": {"devices": devices}})
}

/// Returns a request for devices of the class `gpu`.
pub fn request(name: &str, count: usize, extra: Value) -> Value {
    json!({"name": name, "exactly": exactly(count, extra)})
}

pub fn exactly(count: usize, extra: Value) -> Value {
    let mut wanted = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
    wanted.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    wanted
}

pub fn all(name: &str, extra: Value) -> Value {
    let mut request = json!({"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}});
    request["exactly"].as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    request
}

/// Returns a selector of devices with a value of an attribute.
pub fn where_is(attribute: &str, value: &str) -> Value {
    let expression = format!("device.attributes[{DRIVER:?}].{attribute} == {value}");
    json!({"selectors": [{"cel": {"expression": expression}}]})
}

/// Returns devices `d0`, `d1`, … without attributes.
pub fn plain(count: usize) -> Value {
    (0..count).map(|number| json!({"name": format!("d{number}")})).collect()
}
