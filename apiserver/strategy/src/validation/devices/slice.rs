//! Validates ResourceSlices: the devices of a driver in one pool, and their nodes.
//!
//! Corresponds to validateResourceSliceSpec.

use super::identifiers::{self, MAX_QUALIFIED_BYTES};
use super::{Context, binding_conditions, by_name, capacity, check_each, check_each_entry, check_each_unique, taint};
use crate::validation::pod::affinity::node_selector;
use cel::device::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES};
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::{Value, json};

const MAX_DEVICES: usize = 128;
/// Maximum number of devices in a slice if one of them has taints or consumes counters.
const MAX_LARGE_DEVICES: usize = 64;
const MAX_COUNTER_SETS: usize = 8;
const MAX_COUNTERS: usize = 32;
const MAX_CONSUMED_SETS: usize = 2;
const MAX_TAINTS: usize = 16;
const MAX_LABEL_BYTES: usize = 63;

/// The fields that say which nodes have access to the devices of a slice.
const NODE_FIELDS: [&str; 4] = ["nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection"];

pub fn create(_context: &Context<'_>, slice: &At<'_>, errors: &mut Errors) {
    let spec = slice.field("spec");
    driver_and_pool(&spec, errors);
    content(&spec, None, errors);
}

/// Validates an update. Pool, driver and node are immutable; the devices are not.
pub fn update(_context: &Context<'_>, slice: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (slice.field("spec"), old.field("spec"));
    driver_and_pool(&spec, errors);
    for path in ["pool.name", "driver", "nodeName"] {
        spec.down(path).check_unchanged(&before.down(path), errors);
    }
    content(&spec, Some(&before), errors);
}

fn driver_and_pool(spec: &At<'_>, errors: &mut Errors) {
    identifiers::driver(&spec.field("driver"), errors);
    let pool = spec.field("pool");
    identifiers::pool(&pool.field("name"), errors);
    let (count, generation) = (pool.field("resourceSliceCount"), pool.field("generation"));
    if count.integer().unwrap_or(0) <= 0 {
        errors.push(count.invalid_as(&json!(count.integer().unwrap_or(0)), "must be greater than zero"));
    }
    if generation.integer().is_some_and(|number| number < 0) {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
}

fn content(spec: &At<'_>, old: Option<&At<'_>>, errors: &mut Errors) {
    nodes_of_slice(spec, errors);
    let (devices, counters) = (spec.field("devices"), spec.field("sharedCounters"));
    if devices.is_set() && counters.is_set() {
        let why = "only one of `sharedCounters` or `devices` is allowed";
        errors.push(spec.invalid_as(&json!(""), why));
    }
    let is_large = |device: &At<'_>| !device.field("taints").is_empty() || !device.field("consumesCounters").is_empty();
    let max = if devices.items().any(|one| is_large(&one)) { MAX_LARGE_DEVICES } else { MAX_DEVICES };
    let before = |name: &Value| old?.field("devices").items().find(|device| device.value["name"] == *name);
    check_each(&devices, max, errors, &|one, errors| {
        device(one, before(&one.value["name"]).as_ref(), errors);
        nodes_of_device(one, spec.field("perDeviceNodeSelection").is_true(), errors);
        binding_conditions(one, errors);
    });
    let mut names = std::collections::BTreeSet::new();
    for one in devices.items().filter(|_| devices.len() <= max) {
        let name = At::new(one.path, &one.value["name"]);
        if !names.insert(name.text()) {
            errors.push(name.duplicate());
        }
    }
    check_each_unique(&counters, by_name, MAX_COUNTER_SETS, errors, &|set, errors| counter_set(set, "name", errors));
}

/// Checks that exactly one field says which nodes have access to the devices.
fn nodes_of_slice(spec: &At<'_>, errors: &mut Errors) {
    let present = present_node_fields(spec, &NODE_FIELDS, "must be either unset or set to a non-empty string", errors);
    let all = NODE_FIELDS.map(|field| format!("`{field}`")).join(", ");
    match present.len() {
        0 => errors.push(spec.required(&format!("exactly one of {all} is required"))),
        1 => {}
        _ => {
            let shown = json!(format!("{{{}}}", present.join(", ")));
            errors.push(
                spec.invalid_as(&shown, format!("exactly one of {all} is required, but multiple fields are set")),
            );
        }
    }
}

/// Checks the fields that select nodes, and returns those that are present. `empty_name` is the error for an empty
/// `nodeName`.
fn present_node_fields(at: &At<'_>, fields: &[&str], empty_name: &str, errors: &mut Errors) -> Vec<String> {
    let mut present = Vec::new();
    for name in fields {
        let field = at.field(name);
        match *name {
            _ if !field.is_set() => continue,
            "nodeName" if field.is_empty() => {
                errors.push(field.invalid(empty_name));
                continue;
            }
            "nodeName" => field.check(names::dns1123_subdomain, errors),
            "nodeSelector" => {
                node_selector(&field, errors);
                let terms = field.field("nodeSelectorTerms");
                // The selector of a slice has a single term; that of one device may have several.
                if fields.len() == NODE_FIELDS.len() && terms.len() != 1 {
                    errors.push(terms.invalid("must have exactly one node selector term"));
                }
            }
            _ if !field.is_true() => {
                errors.push(field.invalid("must be either unset or set to true"));
                continue;
            }
            _ => {}
        }
        present.push(format!("`{name}`"));
    }
    present
}

/// Checks the fields that select the nodes of one device. They are required with `perDeviceNodeSelection`, and
/// forbidden without it.
fn nodes_of_device(device: &At<'_>, is_per_device: bool, errors: &mut Errors) {
    let fields = &NODE_FIELDS[..3];
    if !is_per_device {
        if fields.iter().any(|field| device.field(field).is_set()) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.push(device.invalid_as(&Value::Null, why));
        }
        return;
    }
    const ONE: &str = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let present = present_node_fields(device, fields, "must not be empty", errors);
    match present.len() {
        0 => errors.push(device.required(ONE)),
        1 => {}
        _ => errors.push(device.invalid_as(&json!(format!("{{{}}}", present.join(", "))), ONE)),
    }
}

fn device(device: &At<'_>, old: Option<&At<'_>>, errors: &mut Errors) {
    device.field("name").check(names::dns1123_label, errors);
    let (attributes, capacities) = (device.field("attributes"), device.field("capacity"));
    let count = attributes.len() + capacities.len();
    if count > MAX_ATTRIBUTES {
        let why = format!("the total number of attributes and capacities must not exceed {MAX_ATTRIBUTES}");
        errors.push(device.invalid_as(&json!(count), why));
    }
    check_each_entry(&attributes, usize::MAX, MAX_QUALIFIED_BYTES, errors, &|name, at, errors| {
        identifiers::qualified(&At::new(at.path.clone(), &json!(name)), errors);
        attribute(at, errors);
    });
    let is_shared = device.field("allowMultipleAllocations").is_true();
    check_each_entry(&capacities, usize::MAX, MAX_QUALIFIED_BYTES, errors, &|name, at, errors| {
        identifiers::qualified(&At::new(at.path.clone(), &json!(name)), errors);
        capacity::validate(at, is_shared, errors);
    });
    let taints = device.field("taints");
    if old.is_none_or(|old| old.field("taints").value != taints.value) {
        check_each(&taints, MAX_TAINTS, errors, &taint);
    }
    let by_set = |consumed: &Value| consumed["counterSet"].clone();
    check_each_unique(&device.field("consumesCounters"), by_set, MAX_CONSUMED_SETS, errors, &|consumed, errors| {
        counter_set(consumed, "counterSet", errors);
    });
}

/// Checks a set of counters that a device consumes or that devices share. `name` is the field with the name of the set.
fn counter_set(set: &At<'_>, name: &str, errors: &mut Errors) {
    set.field(name).check_required(names::dns1123_label, errors);
    let counters = set.field("counters");
    if counters.is_empty() {
        errors.push(counters.required(""));
    }
    check_each_entry(&counters, MAX_COUNTERS, MAX_LABEL_BYTES, errors, &|name, at, errors| {
        At::new(at.path.clone(), &json!(name)).check(names::dns1123_label, errors);
    });
}

fn attribute(attribute: &At<'_>, errors: &mut Errors) {
    let (text, version) = (attribute.field("string"), attribute.field("version"));
    if text.len() > MAX_ATTRIBUTE_BYTES {
        errors.push(text.too_long(MAX_ATTRIBUTE_BYTES));
    }
    if version.is_set() {
        if !is_semantic_version(version.text()) {
            errors.push(version.invalid("must be a string compatible with semver.org spec 2.0.0"));
        }
        if version.len() > MAX_ATTRIBUTE_BYTES {
            errors.push(version.too_long(MAX_ATTRIBUTE_BYTES));
        }
    }
    match attribute.map().map_or(0, |values| values.values().filter(|value| !value.is_null()).count()) {
        0 => errors.push(attribute.invalid_as(&json!(""), "exactly one value must be specified")),
        1 => {}
        _ => errors.push(attribute.invalid("exactly one value must be specified")),
    }
}

/// Returns true for a semantic version such as `1.2.3-rc.1+build.5`.
fn is_semantic_version(text: &str) -> bool {
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, release) = text.split_once('-').map_or((text, None), |(core, release)| (core, Some(release)));
    let is_word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let is_plain = |part: &str| is_number(part) && (part == "0" || !part.starts_with('0'));
    core.split('.').count() == 3
        && core.split('.').all(is_plain)
        && release.is_none_or(|text| text.split('.').all(|part| is_word(part) && (!is_number(part) || is_plain(part))))
        && build.is_none_or(|text| text.split('.').all(is_word))
}

#[cfg(test)]
mod tests {
    use super::is_semantic_version;

    #[test]
    fn versions_are_semantic() {
        for text in ["0.0.0", "1.2.30", "1.0.0-alpha.0-x", "1.0.0-0a", "1.0.0+01.b-c", "1.0.0-rc+a"] {
            assert!(is_semantic_version(text), "{text}");
        }
        for text in ["", "1.2", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3+", "v1.2.3", "1.2.3-a..b", "1.2.3-ä"]
        {
            assert!(!is_semantic_version(text), "{text}");
        }
    }
}
