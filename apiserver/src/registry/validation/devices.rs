//! Devices: what drivers offer, classes of it, and claims for it.
//!
//! Corresponds to pkg/apis/resource/validation.

use super::at::{At, Errors};
use super::object_meta::validate_annotations;
use super::pod::affinity::node_selector;
use super::pod::resources::is_extended;
use crate::registry::strategy::WriteContext;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_CONSTRAINTS: usize = 32;
const MAX_CONFIGS: usize = 32;
const MAX_SELECTORS: usize = 32;
const MAX_DEVICES: usize = 128;
const MAX_ATTRIBUTES: usize = 32;
const MAX_CONSUMERS: usize = 256;
const MAX_EXPRESSION_BYTES: usize = 10 * 1024;
const MAX_PARAMETERS_BYTES: usize = 10 * 1024;
const MAX_DRIVER_BYTES: usize = 63;
const MAX_POOL_BYTES: usize = 253;
const MAX_IDENTIFIER_BYTES: usize = 32;
const MAX_ATTRIBUTE_BYTES: usize = 64;

type Check<'c> = &'c dyn Fn(&At<'_>, &mut Errors);

/// Each item by itself, of a list that is not too long.
fn each(list: &At<'_>, max: usize, errors: &mut Errors, check: Check<'_>) {
    list.items().for_each(|item| check(&item, errors));
    if list.len() > max {
        errors.push(FieldError::too_many(list.path.clone(), list.len(), max));
    }
}

/// The same, of items that are told apart by a field, or by themselves where that has no name.
fn each_once(list: &At<'_>, key: &str, max: usize, errors: &mut Errors, check: Check<'_>) {
    let seen = std::cell::RefCell::new(BTreeSet::new());
    each(list, max, errors, &|item, errors| {
        check(item, errors);
        let key = if key.is_empty() { item.clone() } else { item.field(key) };
        if !seen.borrow_mut().insert(key.text().to_owned()) {
            errors.push(key.duplicate());
        }
    });
}

/// The name of a driver, also of one for storage: a domain, in any case.
pub fn driver_name(name: &At<'_>, errors: &mut Errors) {
    if name.is_empty() {
        errors.push(name.required(""));
        return;
    }
    if name.len() > MAX_DRIVER_BYTES {
        errors.push(name.too_long(MAX_DRIVER_BYTES));
    }
    let complaints = names::dns1123_subdomain(&name.text().to_lowercase());
    errors.extend(complaints.into_iter().map(|complaint| name.invalid_text(complaint)));
}

pub fn claim(_context: &Context<'_>, claim: &At<'_>, errors: &mut Errors) {
    claim_spec(&claim.field("spec"), errors);
}

pub fn claim_template(_context: &Context<'_>, template: &At<'_>, errors: &mut Errors) {
    let meta = template.down("spec.metadata");
    meta.field("labels").check_labels(errors);
    validate_annotations(&meta.field("annotations"), errors);
    claim_spec(&template.down("spec.spec"), errors);
}

pub fn claim_update(context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    template_update(context, claim, old, errors);
    claim_spec(&claim.field("spec"), errors);
}

pub fn template_update(_context: &Context<'_>, template: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    template.field("spec").check_unchanged(&old.field("spec"), errors);
}

fn claim_spec(spec: &At<'_>, errors: &mut Errors) {
    let devices = spec.field("devices");
    let names = request_names(&devices);
    each_once(&devices.field("requests"), "name", MAX_REQUESTS, errors, &request);
    each(&devices.field("constraints"), MAX_CONSTRAINTS, errors, &|constraint, errors| {
        requests_of(&constraint.field("requests"), &names, errors);
        let attributes = ["matchAttribute", "distinctAttribute"].map(|field| constraint.field(field));
        match attributes.iter().find(|name| name.is_set()) {
            Some(name) => {
                qualified_name(name, errors);
                if !name.is_empty() && !name.text().contains('/') {
                    errors.push(name.invalid("must include a domain"));
                }
            }
            None => errors.push(constraint.required(
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            )),
        }
    });
    each(&devices.field("config"), MAX_CONFIGS, errors, &|config, errors| {
        requests_of(&config.field("requests"), &names, errors);
        opaque(config, errors);
    });
}

/// `request`, and `request/alternative` where there are alternatives.
fn request_names(devices: &At<'_>) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for request in devices.field("requests").items() {
        let name = request.field("name").text();
        names.insert(name.to_owned());
        let alternatives =
            request.field("firstAvailable").items().map(|one| format!("{name}/{}", one.field("name").text()));
        names.extend(alternatives);
    }
    names
}

fn requests_of(list: &At<'_>, known: &BTreeSet<String>, errors: &mut Errors) {
    const WHAT: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    each_once(list, "", MAX_REQUESTS, errors, &|name, errors| {
        let segments = name.text().split('/');
        if segments.clone().count() <= 2 {
            for segment in segments {
                At::new(name.path.clone(), &json!(segment)).check(names::dns1123_label, errors);
            }
        }
        if !known.contains(name.text()) {
            errors.push(name.invalid(WHAT));
        }
    });
}

fn request(request: &At<'_>, errors: &mut Errors) {
    request.field("name").check(names::dns1123_label, errors);
    let (exactly, alternatives) = (request.field("exactly"), request.field("firstAvailable"));
    each_once(&alternatives, "name", MAX_ALTERNATIVES, errors, &|one, errors| {
        one.field("name").check(names::dns1123_label, errors);
        wanted(one, errors);
    });
    if exactly.is_set() {
        wanted(&exactly, errors);
    }
    match (exactly.is_set(), !alternatives.is_empty()) {
        (true, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(request.invalid_as(&Value::Null, why));
        }
        (false, false) => errors.push(request.required("exactly one of `exactly` or `firstAvailable` is required")),
        _ => {}
    }
}

/// How many devices of which class.
fn wanted(request: &At<'_>, errors: &mut Errors) {
    request.field("deviceClassName").check_required(names::dns1123_subdomain, errors);
    selectors(&request.field("selectors"), errors);
    let (mode, count) = (request.field("allocationMode"), request.field("count"));
    let number = count.integer().unwrap_or(0);
    match mode.text() {
        "All" if number != 0 => {
            errors.push(count.invalid("must not be specified when allocationMode is 'All'"));
        }
        "ExactCount" if number <= 0 => {
            errors.push(count.invalid_as(&json!(number), "must be greater than zero"));
        }
        "All" | "ExactCount" => {}
        _ => errors.push(At::new(mode.path.clone(), &json!(mode.text())).not_supported(&["All", "ExactCount"])),
    }
    request.field("tolerations").items().for_each(|toleration| tolerate(&toleration, errors));
}

fn tolerate(toleration: &At<'_>, errors: &mut Errors) {
    let (key, operator, value) = (toleration.field("key"), toleration.field("operator"), toleration.field("value"));
    if !key.is_empty() {
        key.check(names::qualified_name, errors);
    }
    match operator.text() {
        "Exists" if !value.is_empty() => {
            errors.push(value.invalid("must be empty for operator `Exists`"));
        }
        "Exists" => {}
        "Equal" => value.check(names::label_value, errors),
        _ => operator.check_enum(&["Equal", "Exists"], errors),
    }
    let effect = toleration.field("effect");
    if !effect.is_empty() {
        effect.check_enum(EFFECTS, errors);
    }
}

const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

/// Deviation: the expressions that select devices are not compiled.
fn selectors(selectors: &At<'_>, errors: &mut Errors) {
    each(selectors, MAX_SELECTORS, errors, &|selector, errors| {
        let (cel, expression) = (selector.field("cel"), selector.down("cel.expression"));
        if !cel.is_set() {
            errors.push(cel.required(""));
        } else if expression.is_empty() {
            errors.push(expression.required(""));
        } else if expression.len() > MAX_EXPRESSION_BYTES {
            errors.push(expression.too_long(MAX_EXPRESSION_BYTES));
        }
    });
}

/// A configuration that only the driver understands.
fn opaque(config: &At<'_>, errors: &mut Errors) {
    let opaque = config.field("opaque");
    if !opaque.is_set() {
        errors.push(opaque.required(""));
        return;
    }
    driver_name(&opaque.field("driver"), errors);
    let parameters = opaque.field("parameters");
    match parameters.value {
        Value::Null => errors.push(parameters.required("")),
        Value::Object(_) => {
            if parameters.value.to_string().len() > MAX_PARAMETERS_BYTES {
                errors.push(parameters.too_long(MAX_PARAMETERS_BYTES));
            }
        }
        _ => errors.push(parameters.invalid_as(&json!("<value omitted>"), "parameters must be a valid JSON object")),
    }
}

/// Who uses a claim, and what it got: both have to fit together.
pub fn claim_status(_context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (status, before) = (claim.field("status"), old.field("status"));
    let (consumers, allocation) = (status.field("reservedFor"), status.field("allocation"));
    each_once(&consumers, "uid", MAX_CONSUMERS, errors, &|consumer, errors| {
        for field in ["resource", "name", "uid"] {
            if consumer.field(field).is_empty() {
                errors.push(consumer.field(field).required(""));
            }
        }
    });
    if !consumers.is_empty() && !allocation.is_set() {
        errors.push(consumers.forbidden("may not be specified when `allocated` is not set"));
    }
    if allocation.is_set() && before.field("allocation").is_set() {
        allocation.check_unchanged(&before.field("allocation"), errors);
    }
}

pub fn class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    let spec = class.field("spec");
    selectors(&spec.field("selectors"), errors);
    each(&spec.field("config"), MAX_CONFIGS, errors, &opaque);
    let extended = spec.field("extendedResourceName");
    if extended.is_set() && !is_extended(extended.text()) {
        errors.push(extended.invalid("must be a valid extended resource name"));
    }
}

const PLACES: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

pub fn slice(_context: &Context<'_>, slice: &At<'_>, errors: &mut Errors) {
    let spec = slice.field("spec");
    owner(&spec, errors);
    content(&spec, errors);
}

/// Whose devices these are.
fn owner(spec: &At<'_>, errors: &mut Errors) {
    driver_name(&spec.field("driver"), errors);
    pool(&spec.field("pool"), errors);
}

fn content(spec: &At<'_>, errors: &mut Errors) {
    place(spec, errors);
    each_once(&spec.field("devices"), "name", MAX_DEVICES, errors, &device);
}

fn pool(pool: &At<'_>, errors: &mut Errors) {
    let name = pool.field("name");
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        if name.len() > MAX_POOL_BYTES {
            errors.push(name.too_long(MAX_POOL_BYTES));
        }
        for part in name.text().split('/') {
            errors.extend(names::dns1123_subdomain(part).into_iter().map(|complaint| name.invalid(complaint)));
        }
    }
    let (count, generation) = (pool.field("resourceSliceCount"), pool.field("generation"));
    if count.integer().unwrap_or(0) <= 0 {
        errors.push(count.invalid_as(&json!(count.integer().unwrap_or(0)), "must be greater than zero"));
    }
    if generation.integer().is_some_and(|number| number < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
}

/// Devices are on one node, on some, on all, or each says it for itself.
fn place(spec: &At<'_>, errors: &mut Errors) {
    let mut given = Vec::new();
    for field in PLACES {
        let at = spec.field(field);
        match field {
            _ if !at.is_set() => continue,
            "nodeName" if at.is_empty() => {
                errors.push(at.invalid("must be either unset or set to a non-empty string"));
                continue;
            }
            "nodeName" => at.check(names::dns1123_subdomain, errors),
            "nodeSelector" => {
                node_selector(&at, errors);
                let terms = at.field("nodeSelectorTerms");
                if terms.len() != 1 {
                    errors.push(terms.invalid("must have exactly one node selector term"));
                }
            }
            _ if !at.is_true() => {
                errors.push(at.invalid("must be either unset or set to true"));
                continue;
            }
            _ => {}
        }
        given.push(format!("`{field}`"));
    }
    let all = PLACES.map(|field| format!("`{field}`")).join(", ");
    match given.len() {
        0 => errors.push(spec.required(&format!("exactly one of {all} is required"))),
        1 => {}
        _ => {
            let shown = json!(format!("{{{}}}", given.join(", ")));
            errors.push(
                spec.invalid_as(&shown, format!("exactly one of {all} is required, but multiple fields are set")),
            );
        }
    }
}

fn device(device: &At<'_>, errors: &mut Errors) {
    device.field("name").check(names::dns1123_label, errors);
    let (attributes, capacity) = (device.field("attributes"), device.field("capacity"));
    let count = attributes.len() + capacity.len();
    if count > MAX_ATTRIBUTES {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}");
        errors.push(device.invalid_as(&json!(count), why));
    }
    for (name, at) in attributes.entries() {
        qualified_name(&At::new(at.path.clone(), &json!(name)), errors);
        attribute(&at, errors);
    }
    for (name, at) in capacity.entries() {
        qualified_name(&At::new(at.path.clone(), &json!(name)), errors);
    }
    for taint in device.field("taints").items() {
        taint.field("key").check(names::qualified_name, errors);
        if !taint.field("value").is_empty() {
            taint.field("value").check(names::label_value, errors);
        }
        taint.field("effect").check_enum(EFFECTS, errors);
    }
}

fn attribute(attribute: &At<'_>, errors: &mut Errors) {
    match attribute.map().map_or(0, |values| values.values().filter(|value| !value.is_null()).count()) {
        0 => errors.push(attribute.required("exactly one value must be specified")),
        1 => {}
        _ => errors.push(attribute.invalid("exactly one value must be specified")),
    }
    for field in ["string", "version"] {
        if attribute.field(field).len() > MAX_ATTRIBUTE_BYTES {
            errors.push(attribute.field(field).too_long(MAX_ATTRIBUTE_BYTES));
        }
    }
}

/// An identifier as in C, below a domain or below the driver's own.
fn qualified_name(name: &At<'_>, errors: &mut Errors) {
    const NOT_ONE: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
    if name.is_empty() {
        errors.push(name.required("name required"));
        return;
    }
    let parts: Vec<&str> = name.text().split('/').collect();
    let identifier = match parts[..] {
        [identifier] => identifier,
        [domain, identifier] => {
            if domain.is_empty() {
                errors.push(name.required("the domain must not be empty"));
            } else {
                driver_name(&At::new(name.path.clone(), &json!(domain)), errors);
            }
            if identifier.is_empty() {
                errors.push(name.required("the name must not be empty"));
                return;
            }
            identifier
        }
        _ => return,
    };
    if identifier.len() > MAX_IDENTIFIER_BYTES {
        errors.push(name.too_long(MAX_IDENTIFIER_BYTES));
    }
    let fits = identifier.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !identifier.starts_with(|first: char| first.is_ascii_digit());
    if !fits {
        errors.push(name.invalid_as(&json!(identifier), NOT_ONE));
    }
}

/// Drivers publish devices anew; where these are stays.
pub fn slice_update(_context: &Context<'_>, slice: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (slice.field("spec"), old.field("spec"));
    owner(&spec, errors);
    for path in ["pool.name", "driver", "nodeName"] {
        spec.down(path).check_unchanged(&before.down(path), errors);
    }
    content(&spec, errors);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{create, update, update_of};
    use serde_json::{Value, json};

    fn object(kind: &str, spec: Value) -> Value {
        json!({"apiVersion": "resource.k8s.io/v1", "kind": kind, "spec": spec})
    }

    fn claim(devices: Value) -> Vec<String> {
        create(object("ResourceClaim", json!({"devices": devices})))
    }

    #[test]
    fn a_claim_asks_for_so_many_devices_of_a_class() {
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
    }

    #[test]
    fn constraints_and_configurations_name_requests_that_are_there() {
        let gpu = json!({"name": "gpu", "firstAvailable": [{"name": "big", "deviceClassName": "a"}]});
        let what =
            "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        let devices = json!({
            "requests": [gpu, gpu, {"name": "none"}],
            "constraints": [
                {"requests": ["gpu/big", "gpu/small"], "matchAttribute": "a.example/numa"},
                {"requests": ["gpu"]},
            ],
            "config": [{"requests": ["gpu"], "opaque": {"driver": "d.example", "parameters": {"a": 1}}}, {}],
        });
        assert_eq!(
            claim(devices),
            [
                "spec.devices.requests[1].name: Duplicate value: \"gpu\"".to_owned(),
                "spec.devices.requests[2]: Required value: exactly one of `exactly` or `firstAvailable` is required"
                    .to_owned(),
                format!("spec.devices.constraints[0].requests[1]: Invalid value: \"gpu/small\": {what}"),
                "spec.devices.constraints[1]: Required value: exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set".to_owned(),
                "spec.devices.config[1].opaque: Required value".to_owned(),
            ]
        );
    }

    #[test]
    fn what_was_asked_and_what_was_given_stay() {
        let with = |class: &str, status: Value| {
            let request = json!({"name": "gpu", "exactly": {"deviceClassName": class}});
            let mut claim = object("ResourceClaim", json!({"devices": {"requests": [request]}}));
            claim["status"] = status;
            claim
        };
        let errors = update(with("a", json!({})), with("b", json!({})));
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with("spec: Invalid value: ") && errors[0].ends_with(": field is immutable"));
        let consumers =
            json!([{"resource": "pods", "name": "p", "uid": "1"}, {"resource": "pods", "name": "p", "uid": "1"}]);
        assert_eq!(
            update_of("status", with("a", json!({})), with("a", json!({"reservedFor": consumers}))),
            [
                "status.reservedFor[1].uid: Duplicate value: \"1\"",
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
            ]
        );
    }

    #[test]
    fn a_slice_says_where_its_devices_are() {
        let slice = |place: Value, device: Value| {
            let mut spec = json!({"driver": "d.example", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "devices": [device]});
            spec.as_object_mut().unwrap().extend(place.as_object().unwrap().clone());
            create(object("ResourceSlice", spec))
        };
        let device =
            json!({"name": "d0", "attributes": {"model": {"string": "x"}}, "capacity": {"memory": {"value": "1Gi"}}});
        assert_eq!(slice(json!({"nodeName": "n"}), device.clone()), [""; 0]);
        let one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required";
        assert_eq!(slice(json!({}), device.clone()), [format!("spec: Required value: {one}")]);
        assert_eq!(
            slice(json!({"nodeName": "n", "allNodes": true}), device),
            [format!("spec: Invalid value: \"{{`nodeName`, `allNodes`}}\": {one}, but multiple fields are set")]
        );
        let odd = json!({"name": "D0", "attributes": {"a.example/1x": {}, "ok": {"int": 1, "bool": true}}});
        let errors = slice(json!({"allNodes": true}), odd);
        assert_eq!(errors.len(), 4, "{errors:?}");
        assert_eq!(
            errors[2],
            "spec.devices[0].attributes[a.example/1x]: Required value: exactly one value must be specified"
        );
    }
}
