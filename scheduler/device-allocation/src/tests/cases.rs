//! Cases of counts, selectors, constraints, alternatives, taints, admin access and configuration.

use super::world::*;
use serde_json::{Value, json};

const NONE: &str = "cannot allocate all claims";

#[test]
fn a_request_gets_as_many_devices_as_it_asks_for() {
    let mut world = World::of_devices(plain(3));
    world.check(json!([request("r", 1, json!({}))]), "r=d0");
    world.check(json!([request("r", 2, json!({})), request("s", 1, json!({}))]), "r=d0 r=d1 s=d2");
    world.check(json!([request("r", 2, json!({})), request("s", 2, json!({}))]), NONE);
    assert_eq!(
        world.told(&[
            claim(json!({"requests": [request("r", 1, json!({}))]})),
            claim(json!({"requests": [request("r", 2, json!({}))]}))
        ]),
        "r=d0 | r=d1 r=d2"
    );
    world.take("d1", json!({}));
    world.check(json!([request("r", 2, json!({}))]), "r=d0 r=d2");
    world.check(json!([request("r", 3, json!({}))]), NONE);
    world.check(json!([]), "");
}

#[test]
fn a_request_for_all_gets_every_device_or_none() {
    let mut world = World::of_devices(plain(3));
    world.check(json!([all("r", json!({}))]), "r=d0 r=d1 r=d2");
    world.take("d1", json!({}));
    world.check(json!([all("r", json!({}))]), NONE);
    World::of_devices(json!([])).check(json!([all("r", json!({}))]), NONE);
    // A pool of which slices are missing may have more devices.
    let half = json!({"devices": plain(1), "pool": {"name": "p1", "generation": 2, "resourceSliceCount": 2}});
    let updating =
        "claim lab/c, request r: asks for all devices, but resource pool gpu.example.com/p1 is currently being updated";
    World::new([slice("s1", half)]).check(json!([all("r", json!({}))]), updating);
}

#[test]
fn class_and_request_select() {
    let model = |name: &str, model: &str| json!({"name": name, "attributes": {"model": {"string": model}}});
    let mut world = World::of_devices(json!([model("d0", "A"), model("d1", "B"), {"name": "d2"}]));
    world.check(json!([request("r", 1, where_is("?model.orValue(\"\")", "\"B\""))]), "r=d1");
    world.check(json!([all("r", where_is("?model.hasValue()", "true"))]), "r=d0 r=d1");
    world.check(json!([request("r", 2, where_is("?model.orValue(\"\")", "\"B\""))]), NONE);
    let wanted = where_is("?model.orValue(\"\")", "\"A\"");
    world.class("a", json!({"spec": wanted}));
    world.check(json!([request("r", 1, json!({"deviceClassName": "a"}))]), "r=d0");
    world.check(
        json!([request("r", 1, json!({"deviceClassName": "a", "selectors": where_is("model", "\"B\"")["selectors"]}))]),
        NONE,
    );
}

#[test]
fn what_is_wrong_with_a_claim_or_class_is_told() {
    let mut world = World::of_devices(plain(1));
    let missing =
        "claim lab/c, request r: could not retrieve device class x: deviceclass.resource.k8s.io \"x\" not found";
    world.check(json!([request("r", 1, json!({"deviceClassName": "x"}))]), missing);
    let absent = "claim lab/c: selector #0 on device gpu.example.com/p1/d0: CEL runtime error: no such key: model. Consider using CEL optional chaining (?), has() macro, or orValue() for optional fields";
    world.check(json!([request("r", 1, where_is("model", "\"A\""))]), absent);
    world.class("bad", json!({"spec": {"selectors": [{"cel": {"expression": "1"}}]}}));
    let bad = "class bad: selector #0: CEL compile error: must evaluate to bool or the unknown type, not int";
    world.check(json!([request("r", 1, json!({"deviceClassName": "bad"}))]), bad);
    world.check(json!([{"name": "r"}]), "resource claim lab/c, request r: unknown request type");
}

/// Devices on two NUMA nodes and of three models.
fn numa() -> World {
    let device = |name: &str, numa: i64, model: &str| json!({"name": name, "attributes": {"numa": {"int": numa}, "gpu.example.com/model": {"string": model}}});
    World::of_devices(json!([
        device("d0", 0, "A"), device("d1", 1, "A"), device("d2", 1, "B"), device("d3", 1, "C"), {"name": "bare"}
    ]))
}

#[test]
fn constraints_hold_for_all_devices_of_their_requests() {
    let world = numa();
    let constrained = |requests: Value, constraint: Value| {
        world.told(&[claim(json!({"requests": requests, "constraints": [constraint]}))])
    };
    let two = json!([request("r", 1, json!({})), request("s", 2, json!({}))]);
    // The first device has to be given back.
    let same = json!({"matchAttribute": "gpu.example.com/numa"});
    assert_eq!(constrained(two.clone(), same.clone()), "r=d1 s=d2 s=d3");
    assert_eq!(constrained(json!([request("r", 4, json!({}))]), same), NONE);
    // Nothing binds the other request.
    let of_s = json!({"matchAttribute": "gpu.example.com/numa", "requests": ["s"]});
    assert_eq!(constrained(two.clone(), of_s), "r=d0 s=d1 s=d2");
    let distinct = json!({"distinctAttribute": "gpu.example.com/model"});
    assert_eq!(constrained(two, distinct.clone()), "r=d0 s=d2 s=d3");
    assert_eq!(constrained(json!([request("r", 4, json!({}))]), distinct), NONE);
    let unknown = json!({"matchAttribute": "other.example.com/numa"});
    assert_eq!(constrained(json!([request("r", 1, json!({}))]), unknown), NONE);
    let all_alike = "claim lab/c, request r: cannot add device gpu.example.com/p1/d1 because a claim constraint would not be satisfied";
    let same = json!({"matchAttribute": "gpu.example.com/numa"});
    assert_eq!(constrained(json!([all("r", json!({}))]), same), all_alike);
}

#[test]
fn the_first_alternative_that_can_be_had_is_taken() {
    let list = |alternatives: Value| json!([{"name": "r", "firstAvailable": alternatives}]);
    let alternative = |name: &str, count: usize, extra: Value| {
        let mut one = exactly(count, extra);
        one["name"] = json!(name);
        one
    };
    let world = numa();
    let b = where_is("?model.orValue(\"\")", "\"B\"");
    let a = where_is("?model.orValue(\"\")", "\"A\"");
    world.check(list(json!([alternative("b", 2, b.clone()), alternative("a", 2, a.clone())])), "r/a=d0 r/a=d1");
    world.check(list(json!([alternative("b", 1, b.clone()), alternative("a", 2, a.clone())])), "r/b=d2");
    world.check(list(json!([alternative("b", 2, b.clone()), alternative("a", 3, a)])), NONE);
    // What a later request needs makes an earlier one take its second choice.
    let mut both = list(json!([alternative("b", 1, b.clone()), alternative("any", 1, json!({}))]));
    both.as_array_mut().unwrap().push(request("s", 1, b));
    world.check(both, "r/any=d0 s=d2");
}

#[test]
fn taints_keep_claims_off_unless_they_tolerate_them() {
    let taint = |effect: &str| json!([{"key": "broken", "value": "fan", "effect": effect}]);
    let world = World::of_devices(json!([
        {"name": "d0", "taints": taint("NoExecute")}, {"name": "d1", "taints": taint("NoSchedule")}, {"name": "d2", "taints": taint("None")}
    ]));
    let tolerating = |toleration: Value| json!([request("r", 1, json!({"tolerations": [toleration]}))]);
    world.check(json!([request("r", 1, json!({}))]), "r=d2");
    world.check(json!([request("r", 2, json!({}))]), NONE);
    world.check(tolerating(json!({"key": "broken", "operator": "Exists"})), "r=d0");
    world.check(tolerating(json!({"operator": "Exists", "effect": "NoSchedule"})), "r=d1");
    world.check(tolerating(json!({"key": "broken", "operator": "Equal", "value": "dust"})), "r=d2");
    let allocated = world.allocate(&[claim(json!({"requests": tolerating(json!({"operator": "Exists"}))}))]).unwrap();
    let result = &allocated[0].devices.as_ref().unwrap().results.as_ref().unwrap()[0];
    assert_eq!(result.tolerations.as_ref().map(Vec::len), Some(1), "the kubelet and the eviction need them");
}

#[test]
fn admin_access_does_not_take_a_device() {
    let mut world = World::of_devices(plain(2));
    let admin = || json!({"adminAccess": true});
    world.take("d0", json!({}));
    world.take("d1", admin());
    world.check(json!([request("r", 2, admin())]), "r=d0 r=d1");
    world.check(json!([all("r", admin())]), "r=d0 r=d1");
    // A device once in a claim, and what an administrator watches is free.
    world.check(json!([request("r", 3, admin())]), NONE);
    world.check(json!([request("r", 1, json!({}))]), "r=d1");
    let allocated = world.allocate(&[claim(json!({"requests": [request("r", 1, admin())]}))]).unwrap();
    let result = &allocated[0].devices.as_ref().unwrap().results.as_ref().unwrap()[0];
    assert_eq!(result.admin_access, Some(true));
}

#[test]
fn configuration_comes_from_classes_and_claim() {
    let mut world = World::of_devices(plain(3));
    let config = |mode: &str| json!({"opaque": {"driver": DRIVER, "parameters": {"mode": mode}}});
    world.class("fast", json!({"spec": {"config": [config("class")]}}));
    let of = |requests: Value| {
        let mut of = config("claim");
        of["requests"] = requests;
        of
    };
    let fast = json!({"deviceClassName": "fast"});
    let devices = json!({
        "requests": [request("r", 1, fast.clone()), request("s", 1, json!({})), request("t", 1, fast)],
        "config": [of(json!(["s"])), of(json!([])), of(json!(["r", "s", "t"]))],
    });
    let allocated = world.allocate(&[claim(devices)]).unwrap();
    let config = allocated[0].devices.as_ref().unwrap().config.as_ref().unwrap();
    let told: Vec<(&str, Vec<&str>)> = config
        .iter()
        .map(|one| (one.source.as_str(), one.requests.iter().flatten().map(String::as_str).collect()))
        .collect();
    let expected =
        [("FromClass", vec!["r", "t"]), ("FromClaim", vec!["s"]), ("FromClaim", vec![]), ("FromClaim", vec![])];
    assert_eq!(told, expected);
}
