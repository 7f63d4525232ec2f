//! Cases of claims that are too large, and of searches that would not end.

use super::world::*;
use serde_json::{Value, json};

#[test]
fn a_claim_has_at_most_32_devices() {
    let world = World::of_devices(plain(40));
    let too_many = "claim lab/c: number of requested devices 33 exceeds the claim limit of 32";
    world.check(json!([request("r", 33, json!({}))]), too_many);
    world.check(json!([request("r", 32, json!({})), request("s", 1, json!({}))]), too_many);
    assert_eq!(world.told(&[claim(json!({"requests": [request("r", 32, json!({}))]}))]).split(' ').count(), 32);
}

#[test]
fn an_alternative_that_is_too_large_is_left_for_the_next() {
    let world = World::of_devices(plain(40));
    let list = |name: &str, counts: &[usize]| {
        let alternatives: Vec<Value> = counts
            .iter()
            .map(|count| {
                let mut one = exactly(*count, json!({}));
                one["name"] = json!(format!("of-{count}"));
                one
            })
            .collect();
        json!({"name": name, "firstAvailable": alternatives})
    };
    let told = |requests: Value| world.told(&[claim(json!({"requests": requests}))]);
    assert!(told(json!([list("r", &[30, 1]), request("s", 10, json!({}))])).starts_with("r/of-1=d0 s=d1"));
    // The thirty devices are not exchanged for others one by one.
    assert!(told(json!([list("r", &[30, 1]), list("s", &[20, 10])])).contains("r/of-1=d0 s/of-20="));
    assert!(told(json!([request("r", 25, json!({})), list("s", &[20, 10, 7])])).contains("s/of-7="));
    let last = json!([list("r", &[30, 28]), list("s", &[20, 10, 3]), request("t", 1, json!({}))]);
    assert!(told(last.clone()).contains("r/of-28=d27 s/of-3=d28"), "{}", told(last));
}

#[test]
fn a_search_that_takes_too_long_is_given_up() {
    // Half of the devices differ from the others, so that seventeen alike are looked for in vain.
    let devices: Value = (0..32)
        .map(|number| json!({"name": format!("d{number}"), "attributes": {"side": {"int": number % 2}}}))
        .collect();
    let world = World::of_devices(devices);
    let constraint = json!({"matchAttribute": "gpu.example.com/side"});
    let claim = claim(json!({"requests": [request("r", 17, json!({}))], "constraints": [constraint]}));
    assert_eq!(world.told(&[claim]), "timed out trying to allocate devices");
}

#[test]
fn many_claims_do_not_exhaust_the_stack() {
    let world = World::of_devices(plain(128));
    let claims: Vec<Value> = (0..128).map(|_| claim(json!({"requests": [request("r", 1, json!({}))]}))).collect();
    assert_eq!(world.allocate(&claims).unwrap().len(), 128);
}

#[test]
fn a_search_may_be_limited_to_a_few_steps() {
    let mut world = World::of_devices(plain(4));
    let claim = claim(json!({"requests": [request("r", 3, json!({}))]}));
    for (max_steps, expected) in [(3, "r=d0 r=d1 r=d2"), (2, "timed out trying to allocate devices")] {
        world.max_steps = max_steps;
        assert_eq!(world.told(std::slice::from_ref(&claim)), expected);
    }
}
