//! The ResourceSlices of a machine: the devices that the simulated drivers on it offer.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/resourceslice. The pool of a node's devices has the node's name. Each
//! device says its place among its group as `index`, and has a `uuid`.

use crate::machine::Machine;
use crate::template::DeviceGroup;
use pod_life::images::fingerprint;
use proto::kinds::Kind;
use proto::kinds::api::resource::v1::ResourceSlice;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Most devices of one slice, as in the API.
const SLICE_LENGTH: usize = 128;

/// Returns the slices that a machine has, by name. `node_uid` is that of its Node, which owns them.
pub fn slices(machine: &Machine, node_uid: &str) -> BTreeMap<String, ResourceSlice> {
    let node = &machine.name;
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid, "controller": true});
    let mut slices = BTreeMap::new();
    for driver in machine.drivers() {
        let groups = machine.devices.iter().filter(|group| group.driver == driver);
        let devices: Vec<Value> = groups.flat_map(|group| devices(node, group)).collect();
        let chunks: Vec<&[Value]> = devices.chunks(SLICE_LENGTH).collect();
        for (number, chunk) in chunks.iter().enumerate() {
            let name = if number == 0 { format!("{node}-{driver}") } else { format!("{node}-{driver}-{number}") };
            let slice = json!({
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": {
                    "driver": driver,
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": chunks.len()},
                    "devices": chunk,
                },
            });
            slices.insert(name, ResourceSlice::decode_value(slice).expect("it has the fields of a slice"));
        }
    }
    slices
}

fn devices(node: &str, group: &DeviceGroup) -> Vec<Value> {
    let device = |index: u32| {
        let name = format!("{}-{index}", group.name);
        let digest = fingerprint(&[node, &group.driver, &name]);
        let uuid =
            format!("{}-{}-{}-{}-{}", &digest[..8], &digest[8..12], &digest[12..16], &digest[16..20], &digest[20..32]);
        let mut attributes =
            BTreeMap::from([("index".to_owned(), json!({"int": index})), ("uuid".to_owned(), json!({"string": uuid}))]);
        attributes.extend(group.attributes.clone());
        let capacity: BTreeMap<&String, Value> =
            group.capacity.iter().map(|(name, amount)| (name, json!({"value": amount}))).collect();
        json!({"name": name, "attributes": attributes, "capacity": capacity})
    };
    (0..group.count).map(device).collect()
}

/// Returns true if a slice offers what it should.
pub fn is_current(stored: &ResourceSlice, wanted: &ResourceSlice) -> bool {
    let offer = |slice: &ResourceSlice| {
        let mut spec = slice.spec.clone();
        spec.pool.generation = 0;
        spec
    };
    offer(stored) == offer(wanted) && stored.metadata.owner_references == wanted.metadata.owner_references
}
