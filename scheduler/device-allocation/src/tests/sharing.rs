//! Cases of partitionable devices and of devices that several claims share.

use super::world::*;
use crate::{Allocations, assign_share_ids};
use serde_json::{Value, json};

const NONE: &str = "cannot allocate all claims";

/// A GPU of 80 units of memory, as a whole, in halves and in quarters. The counters are in a slice of their own.
fn partitionable() -> World {
    let part = |name: &str, memory: &str| json!({"name": name, "consumesCounters": [{"counterSet": "gpu", "counters": {"memory": {"value": memory}}}]});
    let pool = json!({"name": "p1", "generation": 1, "resourceSliceCount": 2});
    let counters = json!([{"name": "gpu", "counters": {"memory": {"value": "80"}}}]);
    let parts = json!([
        part("whole", "80"),
        part("half-0", "40"),
        part("half-1", "40"),
        part("quarter-0", "20"),
        part("quarter-1", "20")
    ]);
    World::new([
        slice("s1", json!({"pool": pool, "sharedCounters": counters})),
        slice("s2", json!({"pool": pool, "devices": parts})),
    ])
}

#[test]
fn parts_share_the_counters_of_their_hardware() {
    let mut world = partitionable();
    world.check(json!([request("r", 1, json!({}))]), "r=whole");
    world.check(json!([request("r", 2, json!({}))]), "r=half-0 r=half-1");
    world.check(json!([request("r", 3, json!({}))]), "r=half-0 r=quarter-0 r=quarter-1");
    world.check(json!([request("r", 4, json!({}))]), NONE);
    world.take("half-1", json!({}));
    world.check(json!([request("r", 1, json!({}))]), "r=half-0");
    world.check(json!([request("r", 2, json!({}))]), "r=quarter-0 r=quarter-1");
    world.take("quarter-0", json!({}));
    world.check(json!([request("r", 1, json!({}))]), "r=quarter-1");
    world.take("quarter-1", json!({}));
    world.check(json!([request("r", 1, json!({}))]), NONE);
}

#[test]
fn counters_have_to_be_declared() {
    let consumes = |set: &str, counter: &str| json!([{"name": "d0", "consumesCounters": [{"counterSet": set, "counters": {(counter): {"value": "1"}}}]}]);
    let world = |devices: Value, sets: Value| {
        let pool = json!({"name": "p1", "generation": 1, "resourceSliceCount": 2});
        let spec = json!({"pool": pool, "devices": devices});
        World::new([slice("s1", spec), slice("s2", json!({"pool": pool, "sharedCounters": sets}))])
    };
    let gpu = json!({"name": "gpu", "counters": {"memory": {"value": "80"}}});
    let invalid = "invalid resource pools were encountered";
    let one = json!([request("r", 1, json!({}))]);
    world(consumes("gpu", "memory"), json!([gpu])).check(one.clone(), "r=d0");
    world(consumes("npu", "memory"), json!([gpu])).check(one.clone(), invalid);
    world(consumes("gpu", "cores"), json!([gpu])).check(one.clone(), invalid);
    world(consumes("gpu", "memory"), json!([gpu, gpu])).check(one, invalid);
    let reason =
        "claim lab/c, request r: asks for all devices, but resource pool gpu.example.com/p1 is currently invalid";
    world(consumes("gpu", "cores"), json!([gpu])).check(json!([all("r", json!({}))]), reason);
}

/// A network card of 10 units of bandwidth, for requests from 1 in steps of 2, at most 7, and 3 for those that do not say.
fn shareable() -> World {
    let policy = json!({"default": "3", "validRange": {"min": "1", "step": "2", "max": "7"}});
    let nic = json!({"name": "nic", "allowMultipleAllocations": true, "capacity": {"bandwidth": {"value": "10", "requestPolicy": policy}}});
    World::of_devices(json!([nic]))
}

fn bandwidth(amount: &str) -> Value {
    request("r", 1, json!({"capacity": {"requests": {"bandwidth": amount}}}))
}

#[test]
fn claims_share_a_device_up_to_its_capacity() {
    let mut world = shareable();
    let consumed = |world: &World, request: Value| {
        let allocated =
            world.allocate(&[claim(json!({"requests": [request]}))]).map_err(|refusal| refusal.to_string())?;
        let result = &allocated[0].devices.as_ref().unwrap().results.as_ref().unwrap()[0];
        assert_eq!(result.share_id.as_deref(), Some(""));
        Ok::<_, String>(result.consumed_capacity.as_ref().unwrap()["bandwidth"].0.clone())
    };
    assert_eq!(consumed(&world, bandwidth("4")), Ok("5".to_owned()), "rounded up to the next step");
    assert_eq!(consumed(&world, bandwidth("0")), Ok("1".to_owned()), "the least that is allowed");
    assert_eq!(consumed(&world, request("r", 1, json!({}))), Ok("3".to_owned()), "the default");
    assert_eq!(consumed(&world, bandwidth("8")), Err(NONE.to_owned()), "more than is allowed");
    let other = request("r", 1, json!({"capacity": {"requests": {"cores": "1"}}}));
    assert_eq!(consumed(&world, other), Err(NONE.to_owned()));
    let take = |world: &mut World, id: &str, amount: &str| {
        world.take("nic", json!({"shareID": id, "consumedCapacity": {"bandwidth": amount}}));
    };
    take(&mut world, "a", "5");
    assert_eq!(consumed(&world, bandwidth("4")), Ok("5".to_owned()));
    take(&mut world, "b", "3");
    assert_eq!(consumed(&world, bandwidth("2")), Err(NONE.to_owned()), "8 of 10 are taken, and 2 becomes 3");
    assert_eq!(consumed(&world, bandwidth("1")), Ok("1".to_owned()));
}

#[test]
fn requests_of_one_pod_share_too() {
    let world = shareable();
    let two = |first: &str, second: &str| {
        world.told(&[claim(json!({"requests": [bandwidth(first)]})), claim(json!({"requests": [bandwidth(second)]}))])
    };
    assert_eq!(two("5", "5"), "r=nic | r=nic");
    assert_eq!(two("7", "4"), NONE);
    // One request gets one share of each device.
    world.check(json!([request("r", 2, json!({"capacity": {"requests": {"bandwidth": "1"}}}))]), NONE);
}

#[test]
fn valid_values_are_rounded_up_to() {
    let policy = json!({"default": "2Gi", "validValues": ["1Gi", "2Gi", "8Gi"]});
    let capacity = json!({"memory": {"value": "16Gi", "requestPolicy": policy}});
    let world = World::of_devices(json!([{"name": "d0", "allowMultipleAllocations": true, "capacity": capacity}]));
    for (wanted, expected) in [("3Gi", Ok("8Gi")), ("1", Ok("1Gi")), ("9Gi", Err(NONE))] {
        let request = request("r", 1, json!({"capacity": {"requests": {"memory": wanted}}}));
        let allocated = world.allocate(&[claim(json!({"requests": [request]}))]);
        let consumed = allocated.map(|allocated| {
            allocated[0].devices.as_ref().unwrap().results.as_ref().unwrap()[0].consumed_capacity.as_ref().unwrap()
                    ["memory"]
                    .0
                    .clone()
        });
        assert_eq!(
            consumed.map_err(|why| why.to_string()),
            expected.map(str::to_owned).map_err(str::to_owned),
            "{wanted}"
        );
    }
}

#[test]
fn a_device_of_one_claim_has_to_have_the_requested_capacity() {
    let capacity = |value: &str| json!({"memory": {"value": value}});
    let world = World::of_devices(json!([
        {"name": "d0", "capacity": capacity("40Gi")}, {"name": "d1", "capacity": capacity("80Gi")}, {"name": "d2"}
    ]));
    let wanted = json!({"capacity": {"requests": {"memory": "60Gi"}}});
    world.check(json!([request("r", 1, wanted)]), "r=d1");
}

#[test]
fn shares_get_ids_and_all_that_is_taken_comes_back() {
    let world = shareable();
    let mut allocated = world.allocate(&[claim(json!({"requests": [bandwidth("5")]}))]).unwrap();
    let mut ids = 0;
    assign_share_ids(&mut allocated[0], &mut || {
        ids += 1;
        format!("share-{ids}")
    });
    let mut allocations = Allocations::default();
    let before = allocations.state();
    for owner in ["a", "b", "a"] {
        allocations.set(owner, Some(&allocated[0]));
    }
    assert!(allocations.state() != before && ids == 1);
    ["a", "b", "b"].iter().for_each(|owner| allocations.set(owner, None));
    assert_eq!(allocations.state(), before);
}
