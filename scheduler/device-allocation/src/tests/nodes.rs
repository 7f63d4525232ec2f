//! Cases of nodes, pools and generations, and of the order of devices.

use super::world::*;
use proto::Kind;
use proto::kinds::api::core::v1::NodeSelector;
use proto::kinds::api::resource::v1::{AllocationResult, ResourceClaim};
use serde_json::{Value, json};
use std::sync::Arc;

fn selector(zone: &str) -> Value {
    json!({"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]})
}

fn on(world: &World, name: &str, zone: &str) -> Option<AllocationResult> {
    let claim = ResourceClaim::decode_value(claim(json!({"requests": [request("r", 1, json!({}))]}))).unwrap();
    world.allocator().allocate(&node(name, zone), &[Arc::new(claim)]).ok()?.pop()
}

fn told(selector: &Option<NodeSelector>) -> String {
    let Some(selector) = selector else { return "anywhere".to_owned() };
    let term = &selector.node_selector_terms[0];
    let requirements = term.match_fields.iter().flatten().chain(term.match_expressions.iter().flatten());
    let told = requirements.map(|it| format!("{}={}", it.key, it.values.clone().unwrap_or_default().join(",")));
    told.collect::<Vec<_>>().join(" ")
}

#[test]
fn devices_are_for_the_nodes_of_their_slice() {
    let of = |mut spec: Value| {
        spec["devices"] = plain(1);
        World::new([slice("s1", spec)])
    };
    let nodes = |world: &World| {
        [("n1", "a"), ("n2", "a"), ("n3", "b")].map(|(name, zone)| {
            on(world, name, zone).map_or_else(|| "-".to_owned(), |allocation| told(&allocation.node_selector))
        })
    };
    assert_eq!(nodes(&of(json!({}))), ["metadata.name=n1", "-", "-"]);
    assert_eq!(nodes(&of(json!({"nodeName": null, "allNodes": true}))), ["anywhere", "anywhere", "anywhere"]);
    assert_eq!(nodes(&of(json!({"nodeName": null, "nodeSelector": selector("a")}))), ["zone=a", "zone=a", "-"]);
    assert_eq!(nodes(&of(json!({"nodeName": null}))), ["-", "-", "-"]);
}

#[test]
fn devices_may_have_nodes_of_their_own() {
    let devices = json!([
        {"name": "d0", "nodeName": "n2"}, {"name": "d1", "nodeSelector": selector("b")}, {"name": "d2", "allNodes": true, "bindsToNode": true}
    ]);
    let world =
        World::new([slice("s1", json!({"nodeName": null, "perDeviceNodeSelection": true, "devices": devices}))]);
    for (name, zone, device, nodes) in
        [("n1", "a", "d2", "metadata.name=n1"), ("n2", "a", "d0", "metadata.name=n2"), ("n3", "b", "d1", "zone=b")]
    {
        let allocation = on(&world, name, zone).unwrap();
        let results = allocation.devices.unwrap().results.unwrap();
        assert_eq!((results[0].device.as_str(), told(&allocation.node_selector).as_str()), (device, nodes));
    }
}

#[test]
fn only_whole_pools_of_the_newest_generation_count() {
    let part = |name: &str, generation: i64, count: i64, devices: Value, node: &str| {
        let pool = json!({"name": "p1", "generation": generation, "resourceSliceCount": count});
        slice(name, json!({"pool": pool, "devices": devices, "nodeName": node}))
    };
    let named = |name: &str| json!([{"name": name}]);
    let one = || json!([request("r", 1, json!({}))]);
    let none = "cannot allocate all claims";
    World::new([part("s1", 1, 1, named("old"), "n1"), part("s2", 2, 1, named("new"), "n1")]).check(one(), "r=new");
    World::new([part("s1", 1, 1, named("old"), "n1"), part("s2", 2, 2, named("new"), "n1")]).check(one(), none);
    // The newer generation has nothing for this node.
    World::new([part("s1", 1, 1, named("old"), "n1"), part("s2", 2, 1, named("new"), "n2")]).check(one(), none);
    // The other slices of the pool are for other nodes.
    World::new([part("s1", 1, 2, named("here"), "n1"), part("s2", 1, 2, named("there"), "n2")]).check(one(), "r=here");
    let twice = World::new([part("s1", 1, 2, named("d"), "n1"), part("s2", 1, 2, named("d"), "n1")]);
    twice.check(one(), "invalid resource pools were encountered");
}

#[test]
fn devices_come_in_the_order_of_pools_and_slices() {
    let part = |name: &str, pool: &str, count: usize, device: Value| {
        let pool = json!({"name": pool, "generation": 1, "resourceSliceCount": count});
        slice(name, json!({"pool": pool, "devices": [device]}))
    };
    let plain = |name: &str| json!({"name": name});
    let slow = json!({"name": "slow", "bindingConditions": ["Ready"], "bindingFailureConditions": ["Failed"]});
    let world = World::new([
        part("s4", "p2", 1, plain("d4")),
        part("s3", "p1", 2, plain("d3")),
        part("s2", "p1", 2, plain("d2")),
        part("s1", "p0", 1, slow),
    ]);
    world.check(json!([request("r", 4, json!({}))]), "r=d2 r=d3 r=d4 r=slow");
    let allocated = world.allocate(&[claim(json!({"requests": [request("r", 4, json!({}))]}))]).unwrap();
    let results = allocated[0].devices.as_ref().unwrap().results.as_ref().unwrap();
    let conditions = results.iter().filter_map(|result| result.binding_conditions.as_ref());
    assert_eq!(conditions.collect::<Vec<_>>(), [&["Ready".to_owned()]]);
}
