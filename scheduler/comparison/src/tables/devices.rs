//! Devices: concepts/scheduling-eviction/dynamic-resource-allocation.

use super::{Tiny, node, pod};
use scheduler_plugins::fixture::merge;
use serde_json::{Value, json};

const DRIVER: &str = "gpu.example.com";

/// Returns a device with an attribute, and `extra` merged over it.
fn device(name: &str, model: &str, extra: Value) -> Value {
    let mut device = json!({"name": name, "attributes": {"model": {"string": model}}});
    merge(&mut device, extra);
    device
}

fn slice(node: &str, devices: &[Value]) -> Value {
    json!({"metadata": {"name": format!("{node}-devices")}, "spec": {"driver": DRIVER, "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}, "devices": devices}})
}

/// Returns a claim with these requests.
fn claim(name: &str, requests: &[Value]) -> Value {
    json!({"metadata": {"namespace": "x", "name": name, "uid": name}, "spec": {"devices": {"requests": requests}}})
}

fn exactly(name: &str, extra: Value) -> Value {
    let mut exactly = json!({"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1});
    merge(&mut exactly, extra);
    json!({"name": name, "exactly": exactly})
}

fn of_model(model: &str) -> Value {
    json!({"selectors": [{"cel": {"expression": format!("device.attributes['{DRIVER}'].model == '{model}'")}}]})
}

/// Writes that a claim has a device of a node.
fn allocated(mut claim: Value, node: &str, device: &str) -> Value {
    let field = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    claim["status"] = json!({"allocation": {
        "devices": {"results": [{"request": "r", "driver": DRIVER, "pool": node, "device": device}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]}}});
    claim
}

fn using(claims: &[&str]) -> Value {
    let entry = |claim: &&str| json!({"name": claim, "resourceClaimName": claim});
    pod(json!({"resourceClaims": claims.iter().map(entry).collect::<Vec<_>>()}))
}

/// n1 has a device A and a device B, n2 has two devices A of which one is tainted, n3 has none.
fn three_nodes(claims: Vec<Value>) -> Tiny {
    let taint = json!({"taints": [{"key": "broken", "effect": "NoSchedule"}]});
    let nodes = vec![("n1", node("a", json!({}))), ("n2", node("a", json!({}))), ("n3", node("a", json!({})))];
    let mut tiny = Tiny { nodes, ..Tiny::default() };
    tiny.world.device_classes = vec![
        json!({"metadata": {"name": "gpu"}, "spec": {}}),
        json!({"metadata": {"name": "only-b"}, "spec": of_model("B")}),
    ];
    tiny.world.slices = vec![
        slice("n1", &[device("g0", "A", json!({})), device("g1", "B", json!({}))]),
        slice("n2", &[device("g0", "A", json!({})), device("g1", "A", taint)]),
    ];
    tiny.world.device_claims = claims;
    tiny
}

/// Checks each pod with one claim `c`.
fn check(rows: &[(&str, Value, &str)]) {
    for (says, claim, expected) in rows {
        three_nodes(vec![claim.clone()]).check_feasible(&[(says, using(&["c"]), expected)]);
    }
}

#[test]
fn which_devices_a_request_selects() {
    let one = |extra: Value| claim("c", &[exactly("r", extra)]);
    let tolerating = json!({"tolerations": [{"key": "broken", "operator": "Exists"}]});
    let both = |extra: Value| {
        let mut both = tolerating.clone();
        merge(&mut both, extra);
        one(both)
    };
    check(&[
        ("any device of the class", one(json!({})), "n1 n2"),
        ("a selector in CEL", one(of_model("B")), "n1"),
        ("all selectors, of class and request, have to be true", one(json!({"deviceClassName": "only-b"})), "n1"),
        (
            "which no device is",
            {
                let mut all = of_model("A");
                all["deviceClassName"] = json!("only-b");
                one(all)
            },
            "",
        ),
        ("a class that does not exist", one(json!({"deviceClassName": "none"})), ""),
        ("two devices; a tainted one does not count", one(json!({"count": 2})), "n1"),
        ("unless the request tolerates its taint", both(json!({"count": 2})), "n1 n2"),
        ("three devices", both(json!({"count": 3})), ""),
        (
            "All takes every device that matches, and one at least",
            one(json!({"allocationMode": "All", "count": null})),
            "n1",
        ),
        ("two requests get two devices", claim("c", &[exactly("r", of_model("A")), exactly("s", of_model("A"))]), ""),
        ("of both kinds", claim("c", &[exactly("r", of_model("A")), exactly("s", of_model("B"))]), "n1"),
    ]);
}

#[test]
fn alternatives_and_constraints() {
    let listed = |models: &[(&str, i64)]| {
        let one = |(place, (model, count)): (usize, &(&str, i64))| {
            let mut one = json!({"name": format!("a{place}"), "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count});
            merge(&mut one, of_model(model));
            one
        };
        claim("c", &[json!({"name": "r", "firstAvailable": models.iter().enumerate().map(one).collect::<Vec<_>>()})])
    };
    let constrained = |kind: &str| {
        let mut claim = claim("c", &[exactly("r", json!({})), exactly("s", json!({}))]);
        claim["spec"]["devices"]["constraints"] = json!([{kind: format!("{DRIVER}/model")}]);
        claim
    };
    check(&[
        ("the first alternative that is there", listed(&[("B", 1), ("A", 1)]), "n1 n2"),
        ("no alternative is there", listed(&[("B", 2), ("A", 2)]), ""),
        ("matchAttribute: all devices have the same value", constrained("matchAttribute"), ""),
        ("distinctAttribute: no two have", constrained("distinctAttribute"), "n1"),
    ]);
    // Eight points for the first alternative, seven for the second.
    three_nodes(vec![listed(&[("B", 1), ("A", 1)])]).check_scores(
        "DynamicResources",
        &[("a node with an earlier alternative is better", using(&["c"]), "n1=100 n2=87")],
    );
}

#[test]
fn devices_that_others_have() {
    let new = |extra: Value| claim("c", &[exactly("r", extra)]);
    let taken = || allocated(claim("other", &[exactly("r", json!({}))]), "n2", "g0");
    let with = |claims: Vec<Value>, says: &str, names: &[&str], expected: &str| {
        three_nodes(claims).check_feasible(&[(says, using(names), expected)]);
    };
    with(vec![taken(), new(json!({}))], "the only good device of n2 is taken", &["c"], "n1");
    with(vec![taken(), new(json!({"adminAccess": true}))], "administrators use devices beside others", &["c"], "n1 n2");
    with(vec![taken()], "an allocated claim binds its pods to its node", &["other"], "n2");
    with(vec![taken(), new(json!({}))], "two claims on one node", &["other", "c"], "");
    with(vec![], "a claim that does not exist", &["none"], "");
    let mut leaving = new(json!({}));
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    with(vec![leaving], "a claim that is being deleted", &["c"], "");
}

/// A device that may be shared has capacity for several claims, and partitions of one device use up its counters.
#[test]
fn shares_and_partitions() {
    let asking = |units: &str| claim("c", &[exactly("r", json!({"capacity": {"requests": {"units": units}}}))]);
    let shared = json!({"allowMultipleAllocations": true, "capacity": {"units": {"value": "4", "requestPolicy": {"default": "1"}}}});
    let mut other = allocated(claim("other", &[exactly("r", json!({}))]), "n1", "g0");
    let result = &mut other["status"]["allocation"]["devices"]["results"][0];
    (result["shareID"], result["consumedCapacity"]) =
        (json!("6d6d4b5c-0000-4000-8000-000000000001"), json!({"units": "3"}));
    for (says, units, expected) in [
        ("one of four units is left", "1", "n1 n2"),
        ("two are only on n2", "2", "n2"),
        ("more than a device has", "5", ""),
    ] {
        let mut tiny = three_nodes(vec![other.clone(), asking(units)]);
        tiny.world.slices =
            vec![slice("n1", &[device("g0", "A", shared.clone())]), slice("n2", &[device("g0", "A", shared.clone())])];
        tiny.check_feasible(&[(says, using(&["c"]), expected)]);
    }
    let part = |name: &str, slots: &str| {
        device(
            name,
            "A",
            json!({"consumesCounters": [{"counterSet": "card", "counters": {"slots": {"value": slots}}}]}),
        )
    };
    let pool = json!({"name": "n1", "generation": 1, "resourceSliceCount": 2});
    for (says, count, expected) in [("one part of the card", 1, "n1"), ("two parts need 2 + 2 of 3 slots", 2, "")] {
        let mut tiny = three_nodes(vec![claim("c", &[exactly("r", json!({"count": count}))])]);
        let mut devices = slice("n1", &[part("p0", "2"), part("p1", "2")]);
        devices["spec"]["pool"] = pool.clone();
        let counters = json!({"metadata": {"name": "n1-counters"}, "spec": {"driver": DRIVER, "nodeName": "n1", "pool": pool,
            "sharedCounters": [{"name": "card", "counters": {"slots": {"value": "3"}}}]}});
        tiny.world.slices = vec![devices, counters];
        tiny.check_feasible(&[(says, using(&["c"]), expected)]);
    }
}

/// The documentation: extended resources of a DeviceClass. A node that has the resource of a device plugin is asked as ever.
#[test]
fn a_class_backs_an_extended_resource() {
    let requesting = |amount: &str| json!({"requests": {"example.com/gpu": amount}});
    let asking =
        |amount: &str| pod(json!({"containers": [{"name": "c", "image": "i", "resources": requesting(amount)}]}));
    let mut tiny = three_nodes(vec![allocated(claim("taken", &[exactly("r", json!({}))]), "n1", "g1")]);
    tiny.nodes.push(("n4", node("a", json!({"status": {"allocatable": {"example.com/gpu": "2"}}}))));
    tiny.check_feasible(&[("without a class, only a device plugin has it", asking("1"), "n4")]);
    tiny.world
        .device_classes
        .push(json!({"metadata": {"name": "back"}, "spec": {"extendedResourceName": "example.com/gpu"}}));
    tiny.check_feasible(&[
        ("free devices without taints stand for it", asking("1"), "n1 n2 n4"),
        ("not two of them", asking("2"), "n4"),
        ("nobody has three", asking("3"), ""),
    ]);
    let init = |amount: &str| json!({"name": "i", "image": "i", "resources": requesting(amount)});
    let mut with_init = asking("1");
    with_init["spec"]["initContainers"] = json!([init("1")]);
    tiny.check_feasible(&[("an init container uses the devices of later ones", with_init.clone(), "n1 n2 n4")]);
    with_init["spec"]["initContainers"] = json!([init("2")]);
    tiny.check_feasible(&[("and has to find what it needs beyond them", with_init, "n4")]);
}

/// A node without the resource counts the devices in reach that the class selects, tainted ones too, and those that claims have.
#[test]
fn scores_count_devices_that_stand_for_a_resource() {
    let taken = allocated(claim("taken", &[exactly("r", json!({}))]), "n1", "g1");
    let mut tiny = three_nodes(vec![taken]);
    tiny.nodes.push(("n4", node("a", json!({"status": {"allocatable": {"example.com/gpu": "4"}}}))));
    let class = json!({"metadata": {"name": "back"}, "spec": {"extendedResourceName": "example.com/gpu"}});
    tiny.world.device_classes.push(class);
    let requests = json!({"requests": {"example.com/gpu": "1"}});
    let asking = pod(json!({"containers": [{"name": "c", "image": "i", "resources": requests}]}));
    for (kind, expected) in [("MostAllocated", "n1=100 n2=50 n4=25"), ("LeastAllocated", "n1=0 n2=50 n4=75")] {
        let strategy = json!({"type": kind, "resources": [{"name": "example.com/gpu", "weight": 1}]});
        let config = json!({"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}});
        tiny.world.profile = json!({"pluginConfig": [config]});
        tiny.check_scores("NodeResourcesFit", &[(kind, asking.clone(), expected)]);
    }
}
