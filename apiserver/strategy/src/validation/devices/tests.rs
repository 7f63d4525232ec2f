//! Tables of the errors of ResourceClaims, their status, ResourceSlices and DeviceClasses.

use super::{Errors, identifiers, shorten};
use crate::testing::{create, update, update_of};
use field_checks::at::At;
use serde_json::{Value, json};

fn object(kind: &str, spec: Value) -> Value {
    json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec})
}

fn claim(devices: Value) -> Vec<String> {
    create(object("ResourceClaim", json!({"devices": devices})))
}

#[test]
fn a_request_has_a_class_and_a_number_of_devices() {
    let exactly = |request: Value| claim(json!({"requests": [{"name": "gpu", "exactly": request}]}));
    let at = "spec.devices.requests[0].exactly";
    assert_eq!(exactly(json!({"deviceClassName": "gpu.example.com"})), [""; 0]);
    assert_eq!(exactly(json!({"allocationMode": "All"})), [format!("{at}.deviceClassName: Required value")]);
    assert_eq!(
        exactly(json!({"deviceClassName": "a", "allocationMode": "All", "count": 2})),
        [format!("{at}.count: Invalid value: 2: must not be specified when allocationMode is 'All'")]
    );
    assert_eq!(
        exactly(json!({"deviceClassName": "a", "allocationMode": "Most"})),
        [format!("{at}.allocationMode: Unsupported value: \"Most\": supported values: \"All\", \"ExactCount\"")]
    );
    assert_eq!(
        exactly(json!({"deviceClassName": "a", "selectors": [{}]})),
        [format!("{at}.selectors[0].cel: Required value")]
    );
    let both = json!({"name": "gpu", "exactly": {}, "firstAvailable": [{"name": "A"}]});
    assert_eq!(
        claim(json!({"requests": [both]})),
        [
            "spec.devices.requests[0]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        ],
        "neither of them is checked then"
    );
    let many: Vec<Value> = (0..33).map(|i| json!({"name": format!("R{i}")})).collect();
    assert_eq!(claim(json!({"requests": many})), ["spec.devices.requests: Too many: 33: must have at most 32 items"]);
}

#[test]
fn selectors_are_boolean_expressions_about_one_device() {
    let selected = |expression: &str| {
        let selectors = json!([{"cel": {"expression": expression}}]);
        let errors = create(object("DeviceClass", json!({"selectors": selectors})));
        let prefix = format!("spec.selectors[0].cel.expression: Invalid value: {}: ", json!(expression));
        errors.into_iter().map(|error| error.strip_prefix(&prefix).unwrap_or(&error).to_owned()).collect::<Vec<_>>()
    };
    for fits in [
        "device.driver == 'gpu.example.com'",
        "device.attributes['gpu.example.com'].model == 'a'",
        "device.attributes['gpu.example.com'].version.isGreaterThan(semver('1.2.0'))",
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('8Gi')) >= 0",
        "'gpu.example.com' in device.attributes && cel.bind(gpu, device.attributes['gpu.example.com'], gpu.healthy)",
        "device.allowMultipleAllocations",
    ] {
        assert_eq!(selected(fits), [""; 0], "{fits}");
    }
    assert_eq!(selected("device.driver"), ["must evaluate to bool or the unknown type, not string"]);
    assert_eq!(
        selected("device.name == 'a'"),
        ["compilation failed: ERROR: <input>:1:7: undefined field 'name'\n | device.name == 'a'\n | ......^"]
    );
    assert_eq!(
        selected(
            "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, a + b == c + d))))"
        ),
        ["spec.selectors[0].cel.expression: Forbidden: too complex, exceeds cost limit"]
    );
}

#[test]
fn constraints_and_configurations_refer_to_requests_of_the_claim() {
    let gpu = json!({"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "a"}]});
    let what = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let devices = json!({
        "requests": [gpu, gpu, {"name": "none"}],
        "constraints": [
            {"requests": ["gpu/big", "gpu/small"], "matchAttribute": "a.example/numa"},
            {"requests": ["gpu", "gpu"]},
            {"requests": ["gpu"], "matchAttribute": "numa"},
        ],
        "config": [{"requests": ["gpu"], "opaque": {"driver": "d.example", "parameters": {"a": 1}}}, {},
            {"opaque": {"driver": "d.example", "parameters": [1]}}],
    });
    let mut errors = claim(devices);
    let again = errors.remove(1);
    assert!(again.starts_with("spec.devices.requests[1]: Duplicate value: {"), "{again}");
    let at = |rest: &str| format!("spec.devices.{rest}");
    assert_eq!(
        errors,
        [
            at("requests[2]: Required value: exactly one of `exactly` or `firstAvailable` is required"),
            at(&format!("constraints[0].requests[1]: Invalid value: \"gpu/small\": {what}")),
            at("constraints[1].requests[1]: Duplicate value: \"gpu\""),
            at(
                "constraints[1]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set"
            ),
            at(
                "constraints[2].matchAttribute: Invalid value: \"numa\": a fully qualified name must be a domain and a name separated by a slash"
            ),
            at("config[1].opaque: Required value"),
            at("config[2].opaque.parameters: Invalid value: \"<value omitted>\": must be a valid JSON object"),
        ]
    );
}

#[test]
fn names_of_attributes_are_identifiers_with_a_domain() {
    let refused = |name: &str| {
        let mut errors = Errors::new();
        identifiers::qualified(&At::new("a", &json!(name)), &mut errors);
        errors
            .iter()
            .map(|error| error.message.split(" (e.g.").next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let identifier = |name: &str| {
        format!(
            "Invalid value: {name:?}: a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'"
        )
    };
    assert_eq!(refused("a.example/x_1"), [""; 0]);
    assert_eq!(refused("a/b/c"), [""; 0]);
    assert_eq!(refused(""), [identifier("")]);
    assert_eq!(refused("a.example/1x"), [identifier("1x")]);
    assert_eq!(refused("/x"), ["Invalid value: \"\": the domain must not be empty"]);
    assert_eq!(refused("a.example/"), ["Invalid value: \"\": the name must not be empty"]);
    assert_eq!(refused(&"x".repeat(33)), ["Too long: may not be more than 32 bytes"]);
    assert_eq!(shorten(&format!("{}y", "x".repeat(30)), 16), "xxxxxxx...xxxxxy");
}

/// Returns a claim for one device, with a status.
fn with_status(class: &str, status: Value) -> Value {
    let request = json!({"name": "gpu", "exactly": {"deviceClassName": class}});
    let mut claim = object("ResourceClaim", json!({"devices": {"requests": [request]}}));
    claim["status"] = status;
    claim
}

/// Returns the allocation of one device, with other or more fields of the device.
fn allocation(rest: Value) -> Value {
    let mut result = json!({"request": "gpu", "driver": "d.example", "pool": "node/a", "device": "d0"});
    result.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    json!({"devices": {"results": [result]}})
}

#[test]
fn a_spec_and_an_allocation_are_immutable() {
    let errors = update(with_status("a", json!({})), with_status("b", json!({})));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("spec: Invalid value: ") && errors[0].ends_with(": field is immutable"));
    let allocated = |rest: Value| with_status("a", json!({"allocation": allocation(rest)}));
    let errors = update_of("status", allocated(json!({})), allocated(json!({"device": "d1"})));
    assert_eq!(errors.len(), 1);
    assert!(errors[0].starts_with("status.allocation: Invalid value: ") && errors[0].ends_with(": field is immutable"));
}

#[test]
fn consumers_have_distinct_uids_and_need_an_allocation() {
    let consumer = |uid: &str| json!({"resource": "pods", "name": "p", "uid": uid});
    let status = |consumers: &[&str], allocation: Value| {
        let consumers: Vec<Value> = consumers.iter().map(|uid| consumer(uid)).collect();
        with_status("a", json!({"reservedFor": consumers, "allocation": allocation}))
    };
    let errors = update_of("status", with_status("a", json!({})), status(&["1", "1"], Value::Null));
    assert_eq!(errors.len(), 2);
    assert!(errors[0].starts_with("status.reservedFor[1]: Duplicate value: {"), "{errors:?}");
    assert_eq!(errors[1], "status.reservedFor: Forbidden: may not be specified when `allocated` is not set");
    let deleted = |consumers: &[&str]| {
        let mut claim = status(consumers, allocation(json!({})));
        claim["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]});
        claim
    };
    assert_eq!(update_of("status", deleted(&["1", "2"]), deleted(&["2"])), [""; 0]);
    assert_eq!(
        update_of("status", deleted(&["1"]), deleted(&["1", "2"])),
        [
            "status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        ]
    );
}

#[test]
fn an_allocation_refers_to_requests_of_the_claim() {
    let errors = |allocation: Value| {
        let errors =
            update_of("status", with_status("a", json!({})), with_status("a", json!({"allocation": allocation})));
        errors.iter().map(|error| error.replace("status.allocation.", "")).collect::<Vec<_>>()
    };
    assert_eq!(errors(allocation(json!({}))), [""; 0]);
    let shared =
        allocation(json!({"shareID": "0F", "bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"]}));
    assert_eq!(
        errors(shared),
        [
            "devices.results[0].bindingConditions[1]: Duplicate value: \"a\"",
            "devices.results[0].bindingFailureConditions[0]: Invalid value: \"a\": bindingFailureConditions must not overlap with bindingConditions",
            "devices.results[0].shareID: Invalid value: \"0F\": must be a lowercase UUID in 8-4-4-4-12 format",
        ]
    );
    assert_eq!(
        errors(allocation(json!({"bindingConditions": ["a"]}))),
        [
            "devices.results[0].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions"
        ]
    );
    let mut odd = allocation(json!({"driver": "", "pool": ""}));
    odd["devices"]["config"] =
        json!([{"source": "FromSky", "requests": ["cpu"], "opaque": {"driver": "d.example", "parameters": {}}}]);
    odd["nodeSelector"] = json!({"nodeSelectorTerms": []});
    assert_eq!(
        errors(odd),
        [
            "devices.results[0].driver: Required value",
            "devices.results[0].pool: Required value",
            "devices.config[0].source: Unsupported value: \"FromSky\": supported values: \"FromClaim\", \"FromClass\"",
            "devices.config[0].requests[0]: Invalid value: \"cpu\": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'",
            "nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
        ]
    );
}

#[test]
fn drivers_report_allocated_devices_only() {
    let reported = |devices: Value| with_status("a", json!({"allocation": allocation(json!({})), "devices": devices}));
    let device = |rest: Value| {
        let mut device = json!({"driver": "d.example", "pool": "node/a", "device": "d0"});
        device.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        device
    };
    let errors = |devices: Value| update_of("status", reported(json!([])), reported(devices));
    assert_eq!(errors(json!([device(json!({"data": {"a": 1}, "networkData": {"ips": ["10.9.8.7/24"]}}))])), [""; 0]);
    assert_eq!(
        errors(json!([device(json!({"device": "d1", "data": [], "networkData": {
            "interfaceName": "i".repeat(257), "hardwareAddress": "h".repeat(129), "ips": ["10.9.8.7", "10.9.8.7"],
        }}))])),
        [
            r#"status.devices[0]: Invalid value: {"Driver":{},"Pool":{},"Device":{},"ShareID":{}}: must be an allocated device in the claim"#,
            "status.devices[0].data: Invalid value: \"<value omitted>\": must be a valid JSON object",
            "status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
            "status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes",
            "status.devices[0].networkData.ips[0]: Invalid value: \"10.9.8.7\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            "status.devices[0].networkData.ips[1]: Invalid value: \"10.9.8.7\": must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)",
            "status.devices[0].networkData.ips[1]: Duplicate value: \"10.9.8.7\"",
        ]
    );
    let deallocated = with_status("a", json!({"devices": [device(json!({}))]}));
    assert_eq!(
        update_of("status", reported(json!([device(json!({}))])), deallocated),
        [""; 0],
        "the status of a deallocated device is dropped"
    );
}

/// Returns a slice of a pool, with other or more fields.
fn slice(rest: Value) -> Value {
    let mut spec = json!({"driver": "d.example", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}});
    spec.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object("ResourceSlice", spec)
}

#[test]
fn a_slice_selects_the_nodes_of_its_devices() {
    let device =
        json!({"name": "d0", "attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}}});
    let placed = |mut place: Value| {
        place["devices"] = json!([device]);
        create(slice(place))
    };
    assert_eq!(placed(json!({"nodeName": "n"})), [""; 0]);
    let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
    assert_eq!(placed(json!({})), [format!("spec: Required value: {one}")]);
    assert_eq!(
        placed(json!({"nodeName": "n", "allNodes": true})),
        [format!("spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}, but multiple fields are set")]
    );
    let each = |rest: Value| {
        let mut device = json!({"name": "d0"});
        device.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        create(slice(json!({"perDeviceNodeSelection": true, "devices": [device]})))
    };
    let one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    assert_eq!(each(json!({"nodeName": "n"})), [""; 0]);
    assert_eq!(each(json!({})), [format!("spec.devices[0]: Required value: {one}")]);
    assert_eq!(
        each(json!({"nodeName": "", "allNodes": true})),
        ["spec.devices[0].nodeName: Invalid value: \"\": must not be empty"]
    );
    assert_eq!(
        each(json!({"nodeName": "n", "allNodes": true})),
        [format!("spec.devices[0]: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}")]
    );
    assert_eq!(
        create(slice(json!({"allNodes": true, "devices": [{"name": "d0", "allNodes": true}]}))),
        [
            "spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
        ]
    );
}

#[test]
fn the_number_of_devices_in_a_slice_is_limited() {
    let all = |devices: Value| create(slice(json!({"allNodes": true, "devices": devices})));
    let many = |count: usize, rest: Value| -> Value {
        let device = |i: usize| {
            let mut device = json!({"name": format!("d{i}")});
            device.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            device
        };
        (0..count).map(device).collect()
    };
    let tainted = json!({"taints": [{"key": "k", "effect": "None"}]});
    let consuming = json!({"consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "1"}}}]});
    let too_many =
        |count: usize, max: usize| [format!("spec.devices: Too many: {count}: must have at most {max} items")];
    assert_eq!(all(many(128, json!({}))), [""; 0]);
    assert_eq!(all(many(129, json!({}))), too_many(129, 128));
    assert_eq!(all(many(64, tainted.clone())), [""; 0]);
    assert_eq!(all(many(65, tainted)), too_many(65, 64));
    assert_eq!(all(many(65, consuming)), too_many(65, 64));
    assert_eq!(all(json!([{"name": "a"}, {"name": "a"}])), ["spec.devices[1]: Duplicate value: \"a\""]);
}

#[test]
fn shared_counters_and_devices_are_in_separate_slices() {
    let shared = |counters: Value| create(slice(json!({"allNodes": true, "sharedCounters": counters})));
    assert_eq!(shared(json!([{"name": "s", "counters": {"memory": {"value": "1Gi"}}}])), [""; 0]);
    let errors = shared(json!([{"name": "", "counters": {}}, {"name": "s", "counters": {"c": {"value": "1"}}},
        {"name": "s", "counters": {"c": {"value": "1"}}}]));
    assert_eq!(
        errors[..2],
        ["spec.sharedCounters[0].name: Required value", "spec.sharedCounters[0].counters: Required value"]
    );
    assert!(errors[2].starts_with("spec.sharedCounters[2]: Duplicate value: {") && errors.len() == 3, "{errors:?}");
    let nine: Vec<Value> = (0..9).map(|i| json!({"name": format!("s{i}")})).collect();
    assert_eq!(shared(json!(nine)), ["spec.sharedCounters: Too many: 9: must have at most 8 items"]);
    let both = slice(json!({"allNodes": true, "sharedCounters": [{"name": "s", "counters": {"c": {"value": "1"}}}],
        "devices": [{"name": "d"}]}));
    assert_eq!(create(both), ["spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"]);
    let consumed = json!({"counterSet": "s", "counters": {"c": {"value": "1"}}});
    let consuming =
        |sets: Value| create(slice(json!({"allNodes": true, "devices": [{"name": "d", "consumesCounters": sets}]})));
    assert_eq!(
        consuming(json!([consumed, consumed, consumed])),
        ["spec.devices[0].consumesCounters: Too many: 3: must have at most 2 items"]
    );
    assert_eq!(
        consuming(json!([{"counters": {}}])),
        [
            "spec.devices[0].consumesCounters[0].counterSet: Required value",
            "spec.devices[0].consumesCounters[0].counters: Required value",
        ]
    );
}

#[test]
fn attributes_have_one_value() {
    let odd = json!({"name": "d", "attributes": {
        "a.example/x": {}, "two": {"int": 1, "bool": true}, "v": {"version": "1.2"}, "text": {"string": "x".repeat(65)},
    }});
    let mut errors = create(slice(json!({"allNodes": true, "devices": [odd]})));
    errors.sort();
    let at = "spec.devices[0].attributes";
    assert_eq!(
        errors,
        [
            format!("{at}[a.example/x]: Invalid value: \"\": exactly one value must be specified"),
            format!("{at}[text].string: Too long: may not be more than 64 bytes"),
            format!("{at}[two]: Invalid value: {{\"bool\":true,\"int\":1}}: exactly one value must be specified"),
            format!("{at}[v].version: Invalid value: \"1.2\": must be a string compatible with semver.org spec 2.0.0"),
        ]
    );
    let taints = json!([{"key": "k", "effect": "Odd"}]);
    let tainted = slice(json!({"allNodes": true, "devices": [{"name": "d", "taints": taints}]}));
    let why = "spec.devices[0].taints[0].effect: Unsupported value: \"Odd\": supported values: \"NoExecute\", \"NoSchedule\", \"None\"";
    assert_eq!(create(tainted.clone()), [why]);
    assert_eq!(update(tainted.clone(), tainted), [""; 0], "unchanged taints are not checked again");
}

#[test]
fn a_shared_device_has_a_policy_for_parts_of_its_capacity() {
    let part = |policy: Value| {
        let capacity = json!({"memory": {"value": "10", "requestPolicy": policy}});
        let device = json!({"name": "d", "allowMultipleAllocations": true, "capacity": capacity});
        let errors = create(slice(json!({"allNodes": true, "devices": [device]})));
        errors.iter().map(|e| e.replace("spec.devices[0].capacity[memory].requestPolicy", "p")).collect::<Vec<_>>()
    };
    assert_eq!(part(json!({"default": "1", "validValues": ["1", "2"]})), [""; 0]);
    assert_eq!(part(json!({"default": "4", "validRange": {"min": "2", "max": "8", "step": "2"}})), [""; 0]);
    let cases = [
        (
            json!({"validValues": ["1"], "validRange": {"min": "1"}}),
            vec![
                "p: Forbidden: exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time",
            ],
        ),
        (json!({"validValues": ["1"]}), vec!["p.default: Required value: required when validValues is defined"]),
        (json!({"validRange": {"min": "1"}}), vec!["p.default: Required value: required when validRange is defined"]),
        (
            json!({"default": "3", "validValues": ["2", "1", "1", "11"]}),
            vec![
                "p.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
                "p.validValues[3]: Invalid value: \"11\": option is larger than capacity value: 10",
                "p.validValues[2]: Duplicate value: \"1\"",
                "p.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy",
            ],
        ),
        (
            json!({"default": "1", "validRange": {"max": "5"}}),
            vec!["p.validRange.min: Required value: required when validRange is defined"],
        ),
        (
            json!({"default": "1", "validRange": {"min": "12", "max": "11", "step": "3"}}),
            vec![
                "p.validRange.min: Invalid value: \"12\": min is larger than capacity value: 10",
                "p.validRange.min: Invalid value: \"1\": default is less than min: 12",
                "p.validRange.max: Invalid value: \"12\": min is larger than max: 11",
                "p.validRange.max: Invalid value: \"11\": max is larger than capacity value: 10",
                "p.validRange.step: Invalid value: \"3\": one step 15 is larger than capacity value: 10",
                "p.validRange.step: Invalid value: \"1\": value is not a multiple of a given step (3) from (12)",
                "p.validRange.step: Invalid value: \"11\": value is not a multiple of a given step (3) from (12)",
            ],
        ),
    ];
    for (policy, expected) in cases {
        assert_eq!(part(policy.clone()), expected, "{policy}");
    }
    let single = json!({"name": "d", "capacity": {"memory": {"value": "10", "requestPolicy": {"default": "1"}}}});
    assert_eq!(
        create(slice(json!({"allNodes": true, "devices": [single]}))),
        ["spec.devices[0].capacity[memory].requestPolicy: Forbidden: allowMultipleAllocations must be true"]
    );
}
