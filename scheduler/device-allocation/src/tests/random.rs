//! Random worlds: the allocator finds devices if and only if the reference does, and what it finds keeps all rules. What
//! claims have taken equals a count from scratch.

use super::reference::{Claim, Constraint, Device, Solution, Wanted, World};
use super::world::{self, DRIVER, claim, exactly, slice, where_is};
use crate::{Allocations, Allocator, KeptAllocations, Refusal};
use proptest::prelude::*;
use proto::Kind;
use proto::kinds::api::resource::v1::{AllocationResult, ResourceClaim};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

fn device() -> impl Strategy<Value = Device> {
    let shared = prop::option::weighted(0.3, 2..5_i64);
    (
        prop::option::weighted(0.9, 0..3_i64),
        0..3_i64,
        prop::bool::weighted(0.2),
        shared,
        prop::bool::weighted(0.3),
        1..3_i64,
    )
        .prop_map(|(side, counter, is_tainted, shared, is_taken, taken)| Device {
            side,
            counter,
            is_tainted,
            shared,
            is_taken: is_taken && shared.is_none(),
            taken: if is_taken && shared.is_some() { taken } else { 0 },
        })
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let flag = prop::bool::weighted;
    (1..3_usize, prop::option::weighted(0.4, 0..3_i64), flag(0.5), flag(0.2), 0..3_i64)
        .prop_map(|(count, side, tolerates, is_admin, amount)| Wanted { count, side, tolerates, is_admin, amount })
}

fn random_claim() -> impl Strategy<Value = Claim> {
    let request = prop_oneof![3 => prop::collection::vec(wanted(), 1), 1 => prop::collection::vec(wanted(), 2)];
    let constraint = prop_oneof![Just(Constraint::None), Just(Constraint::Match), Just(Constraint::Distinct)];
    (prop::collection::vec(request, 1..3), constraint).prop_map(|(mut requests, constraint)| {
        // Only exact requests may have admin access.
        let lists = requests.iter_mut().filter(|alternatives| alternatives.len() > 1);
        lists.flatten().for_each(|one| one.is_admin = false);
        Claim { requests, constraint }
    })
}

fn random_world() -> impl Strategy<Value = World> {
    (0..7_i64, prop::collection::vec(device(), 1..5), prop::collection::vec(random_claim(), 1..3))
        .prop_map(|(counter, devices, claims)| World { counter, devices, claims })
}

/// Returns the world as the allocator sees it. The capacity of a device that claims share has no default.
fn published(random: &World) -> world::World {
    let devices: Value = random
        .devices
        .iter()
        .enumerate()
        .map(|(number, device)| {
            let mut published = json!({"name": format!("d{number}")});
            if let Some(side) = device.side {
                published["attributes"] = json!({"side": {"int": side}});
            }
            if device.counter > 0 {
                let consumed = json!({"units": {"value": device.counter.to_string()}});
                published["consumesCounters"] = json!([{"counterSet": "set", "counters": consumed}]);
            }
            if device.is_tainted {
                published["taints"] = json!([{"key": "broken", "effect": "NoSchedule"}]);
            }
            if let Some(capacity) = device.shared {
                published["allowMultipleAllocations"] = json!(true);
                published["capacity"] =
                    json!({"units": {"value": capacity.to_string(), "requestPolicy": {"default": "0"}}});
            } else {
                published["capacity"] = json!({"units": {"value": "9"}});
            }
            published
        })
        .collect();
    let pool = json!({"name": "p1", "generation": 1, "resourceSliceCount": 2});
    let sets = json!([{"name": "set", "counters": {"units": {"value": random.counter.to_string()}}}]);
    let mut world = world::World::new([
        slice("s1", json!({"pool": pool, "devices": devices})),
        slice("s2", json!({"pool": pool, "sharedCounters": sets})),
    ]);
    for (number, device) in random.devices.iter().enumerate() {
        let name = format!("d{number}");
        if device.is_taken {
            world.take(&name, json!({}));
        }
        if device.taken > 0 {
            let consumed = json!({"units": device.taken.to_string()});
            world.take(&name, json!({"shareID": "other", "consumedCapacity": consumed}));
        }
    }
    world
}

fn claimed(random: &Claim) -> Value {
    let one = |wanted: &Wanted| {
        let mut one = exactly(wanted.count, json!({"capacity": {"requests": {"units": wanted.amount.to_string()}}}));
        if let Some(side) = wanted.side {
            one["selectors"] = where_is("?side.orValue(9)", &side.to_string())["selectors"].clone();
        }
        if wanted.tolerates {
            one["tolerations"] = json!([{"operator": "Exists"}]);
        }
        if wanted.is_admin {
            one["adminAccess"] = json!(true);
        }
        one
    };
    let requests = random.requests.iter().enumerate().map(|(number, alternatives)| match alternatives.as_slice() {
        [only] => json!({"name": format!("r{number}"), "exactly": one(only)}),
        several => {
            let listed: Value = several
                .iter()
                .enumerate()
                .map(|(place, wanted)| {
                    let mut one = one(wanted);
                    one["name"] = json!(place.to_string());
                    one
                })
                .collect();
            json!({"name": format!("r{number}"), "firstAvailable": listed})
        }
    });
    let attribute = format!("{DRIVER}/side");
    let constraints = match random.constraint {
        Constraint::None => json!([]),
        Constraint::Match => json!([{"matchAttribute": attribute}]),
        Constraint::Distinct => json!([{"distinctAttribute": attribute}]),
    };
    claim(json!({"requests": requests.collect::<Value>(), "constraints": constraints}))
}

/// Reads a solution from the results.
fn solution(random: &World, allocations: &[AllocationResult]) -> Solution {
    let of_claim = |(claim, allocation): (&Claim, &AllocationResult)| {
        let mut chosen: BTreeMap<usize, (usize, Vec<usize>)> = BTreeMap::new();
        for result in allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten()) {
            let (request, alternative) = result.request.split_once('/').unwrap_or((&result.request, "0"));
            let entry = chosen.entry(request[1..].parse().unwrap()).or_default();
            entry.0 = alternative.parse().unwrap();
            entry.1.push(result.device[1..].parse().unwrap());
        }
        (0..claim.requests.len()).map(|request| chosen.remove(&request).unwrap_or_default()).collect()
    };
    random.claims.iter().zip(allocations).map(of_claim).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn devices_are_found_if_there_are_any(random in random_world()) {
        let claims: Vec<Value> = random.claims.iter().map(claimed).collect();
        match published(&random).allocate(&claims) {
            Ok(allocations) => {
                let solution = solution(&random, &allocations);
                prop_assert_eq!(random.broken_rule(&solution), None, "{:?}", solution);
            }
            Err(Refusal::NotEnough) => prop_assert!(!random.has_solution(), "the reference finds one"),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    /// The state after any history of claims equals that of a new scheduler.
    #[test]
    fn allocations_equal_a_rebuild(history in prop::collection::vec((0..4_usize, prop::option::of(prop::collection::vec((0..3_usize, 0..4_i64), 0..3))), 0..20)) {
        let mut kept = Allocations::default();
        let mut last: BTreeMap<usize, AllocationResult> = BTreeMap::new();
        for (owner, allocation) in history {
            let allocation = allocation.map(|devices| {
                let results: Value = devices.iter().map(|(device, amount)| {
                    let mut result = json!({"request": "r", "driver": DRIVER, "pool": "p1", "device": device.to_string()});
                    if *device > 0 {
                        result["shareID"] = json!("s");
                        result["consumedCapacity"] = json!({"units": amount.to_string()});
                    }
                    result
                }).collect();
                let claim = json!({"status": {"allocation": {"devices": {"results": results}}}});
                ResourceClaim::decode_value(claim).unwrap().status.unwrap().allocation.unwrap()
            });
            kept.set(&owner.to_string(), allocation.as_ref());
            match allocation {
                Some(allocation) => drop(last.insert(owner, allocation)),
                None => drop(last.remove(&owner)),
            }
        }
        let mut rebuilt = Allocations::default();
        last.iter().for_each(|(owner, allocation)| rebuilt.set(&owner.to_string(), Some(allocation)));
        prop_assert_eq!(kept.state(), rebuilt.state());
    }

    /// What is kept for a node after any history of allocations is what a search finds.
    #[test]
    fn kept_allocations_equal_a_search(history in prop::collection::vec((0..3_usize, 0..4_usize, 0..2_usize), 0..24)) {
        let pool = |name: &str, devices: usize| json!({"nodeName": name, "pool": {"name": name, "generation": 1, "resourceSliceCount": 1}, "devices": world::plain(devices)});
        let everywhere = json!({"nodeName": null, "allNodes": true, "pool": {"name": "all", "generation": 1, "resourceSliceCount": 1}, "devices": world::plain(1)});
        let mut world = world::World::new([slice("s0", pool("n0", 2)), slice("s1", pool("n1", 1)), slice("s2", everywhere)]);
        let (nodes, kept) = (["n0", "n1", "n2"].map(|name| Arc::new(world::node(name, "a"))), KeptAllocations::default());
        let mut allocator = world.allocator();
        for (owner, device, wanted) in history {
            let (pool, device) = [("n0", "d0"), ("n0", "d1"), ("n1", "d0"), ("all", "d0")][device];
            let result = json!({"request": "r", "driver": DRIVER, "pool": pool, "device": device});
            let taken = ResourceClaim::decode_value(json!({"status": {"allocation": {"devices": {"results": [result]}}}})).unwrap();
            // An owner that has the device gives it back.
            let taken = taken.status.unwrap().allocation.filter(|taken| world.allocations.of(&owner.to_string()) != Some(taken));
            world.allocations.set(&owner.to_string(), taken.as_ref());
            allocator = Allocator { allocated: world.allocations.state(), changes: world.allocations.changes(), ..allocator };
            let wanted = json!({"requests": [world::request("r", wanted + 1, json!({}))]});
            let claims = vec![Arc::new(ResourceClaim::decode_value(claim(wanted)).unwrap())];
            let of_claims = kept.of(&allocator, claims.clone());
            for (number, node) in nodes.iter().enumerate() {
                let found = of_claims.allocate(number, node).map(|allocations| allocations.to_vec());
                prop_assert_eq!(found, allocator.allocate(node, &claims), "{}", node.name());
            }
        }
    }
}
