//! Validates PersistentVolumeClaims and the kinds of storage.k8s.io.
//!
//! Corresponds to ValidatePersistentVolumeClaim of pkg/apis/core/validation and pkg/apis/storage/validation.

use super::difference::difference;
use super::resource_names;
use super::restore::restore;
use super::selector;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

type Context<'a> = WriteContext<'a>;

const MAX_DRIVER_NAME_BYTES: usize = 63;
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETER_BYTES: usize = 256 * 1024;

pub const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub fn access_modes(modes: &At<'_>, errors: &mut Errors) {
    let (mut alone, mut others) = (false, false);
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            errors.push(At::new(modes.path.clone(), mode.value).not_supported(ACCESS_MODES));
        }
        alone |= mode.text() == "ReadWriteOncePod";
        others |= mode.text() != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode.text());
    }
    if alone && others {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

/// Checks the name of a CSI driver: a DNS subdomain of at most 63 bytes, in upper or lower case.
pub fn csi_driver_name(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
    }
    if at.len() > MAX_DRIVER_NAME_BYTES {
        errors.push(at.too_long(MAX_DRIVER_NAME_BYTES));
    }
    at.check(|name| names::dns1123_subdomain(&name.to_lowercase()), errors);
}

/// Checks that an amount is greater than zero.
fn positive_storage(at: &At<'_>, errors: &mut Errors) {
    let Ok(amount) = Quantity::try_from(at.value) else { return };
    if amount.signum() <= 0 {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be greater than zero"));
    }
}

pub fn claim_spec(spec: &At<'_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    selector::check(&spec.field("selector"), errors);
    access_modes(&modes, errors);
    // Kubernetes leaves `requests` out of this path.
    let requested = spec.down("resources.requests").key("storage");
    let requested = At::new(spec.field("resources").key("storage").path, requested.value);
    if requested.is_set() {
        positive_storage(&requested, errors);
    } else {
        errors.push(requested.required(""));
    }
    if !spec.field("storageClassName").is_empty() {
        spec.field("storageClassName").check(names::dns1123_subdomain, errors);
    }
    spec.field("volumeMode").check_optional_enum(&["Block", "Filesystem"], errors);
    data_sources(spec, errors);
    if !spec.field("volumeAttributesClassName").is_empty() {
        spec.field("volumeAttributesClassName").check(names::dns1123_subdomain, errors);
    }
}

fn data_sources(spec: &At<'_>, errors: &mut Errors) {
    let (source, reference) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for at in [&source, &reference] {
        if at.is_set() {
            data_source(at, errors);
        }
    }
    let namespace = reference.field("namespace");
    if !namespace.is_empty() {
        namespace.check(names::dns1123_label, errors);
    }
    if !source.is_set() || !reference.is_set() {
        return;
    }
    let differs =
        ["apiGroup", "kind", "name"].iter().any(|field| source.field(field).value != reference.field(field).value);
    // Kubernetes shows a field path as the value, which is `{}` in JSON.
    if !namespace.is_empty() {
        errors.push(spec.invalid_as(&json!({}), "may not be specified when dataSourceRef.namespace is specified"));
    } else if differs {
        errors.push(spec.invalid_as(&json!({}), "must match dataSourceRef"));
    }
}

fn data_source(at: &At<'_>, errors: &mut Errors) {
    let (group, kind) = (at.field("apiGroup"), at.field("kind"));
    for field in ["name", "kind"] {
        if at.field(field).is_empty() {
            errors.push(at.field(field).required(""));
        }
    }
    if !group.is_empty() {
        group.check(names::dns1123_subdomain, errors);
    } else if kind.text() != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(at.invalid_as(&json!(kind.text()), why));
    }
}

pub fn claim(_context: &Context<'_>, claim: &At<'_>, errors: &mut Errors) {
    claim_spec(&claim.field("spec"), errors);
}

const CLAIM_FIXED: &str =
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";

const STORAGE_CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// Returns the storage class in the annotation that `storageClassName` has replaced.
fn annotated_class<'a>(claim: &At<'a>) -> At<'a> {
    claim.down("metadata.annotations").key(STORAGE_CLASS_ANNOTATION)
}

/// Refuses changes of the spec, except `volumeName` and the storage class if they were not set, and the requested
/// storage and the attributes class of a bound claim.
pub fn claim_update(_context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (claim.field("spec"), old.field("spec"));
    let bound = old.down("status.phase").text() == "Bound";
    let (class, old_class) = (spec.field("storageClassName"), before.field("storageClassName"));
    let (annotated, was_annotated) = (annotated_class(claim), annotated_class(old));
    let gets_class = class.is_set() && !old_class.is_set();
    // The class moves from the annotation to the field.
    let moves_class = gets_class
        && was_annotated.is_set()
        && class.value == was_annotated.value
        && (!annotated.is_set() || annotated.value == was_annotated.value);
    if !moves_class && annotated.text() != was_annotated.text() {
        let path = ["metadata.annotations.", STORAGE_CLASS_ANNOTATION].concat();
        errors.push(At::new(path, annotated.value).invalid_text(super::at::IMMUTABLE));
    }
    let mut compared = spec.value.clone();
    if before.field("volumeName").is_empty() {
        restore(&mut compared, before.value, &["volumeName"]);
    }
    if gets_class && (!was_annotated.is_set() || class.value == was_annotated.value) {
        restore(&mut compared, before.value, &["storageClassName"]);
    }
    if bound && spec.field("volumeAttributesClassName").is_set() {
        restore(&mut compared, before.value, &["volumeAttributesClassName"]);
    }
    if bound && spec.down("resources.requests").is_set() {
        restore(&mut compared, before.value, &["resources", "requests", "storage"]);
    }
    if compared != *before.value {
        let difference = difference(before.value, &compared);
        errors.push(spec.forbidden(format!("{CLAIM_FIXED}\n{difference}")));
    }
    let amount = |at: At<'_>| Quantity::try_from(at.value).ok();
    let requested = |spec: &At<'_>| amount(spec.down("resources.requests").key("storage"));
    if let (Some(now), Some(then)) = (requested(&spec), requested(&before))
        && now < then
        && amount(old.down("status.capacity").key("storage")).is_some_and(|held| now <= held)
    {
        errors.push(spec.down("resources.requests.storage").forbidden("field can not be less than status.capacity"));
    }
    // Kubernetes reports this field without its parent.
    At::new("volumeMode", spec.field("volumeMode").value).check_unchanged(&before.field("volumeMode"), errors);
    let attributes = spec.field("volumeAttributesClassName");
    if !before.field("volumeAttributesClassName").is_set()
        || attributes.value == before.field("volumeAttributesClassName").value
    {
        return;
    }
    if !attributes.is_set() {
        errors.push(attributes.forbidden("update from non-nil value to nil is forbidden"));
    } else if attributes.is_empty() {
        errors.push(attributes.forbidden("update from non-nil value to an empty string is forbidden"));
    }
}

const RESIZE_STATES: &[&str] = &[
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

pub fn claim_status(_context: &Context<'_>, claim: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    if claim.down("spec.accessModes").is_empty() {
        errors.push(At::new("Spec.accessModes", &Value::Null).required(""));
    }
    let status = claim.field("status");
    for (_, at) in status.field("capacity").entries() {
        valid_quantity(&at, errors);
    }
    let mut sorted = RESIZE_STATES.to_vec();
    sorted.sort_unstable();
    let states = At::new("status.allocatedResourceStatus", status.field("allocatedResourceStatuses").value);
    for (name, state) in states.entries() {
        claim_resource_name(&states, name, errors);
        if !sorted.contains(&state.text()) {
            errors.push(At::new(states.path.clone(), &json!(name)).not_supported(&sorted));
        }
    }
    let allocated = status.field("allocatedResources");
    for (name, at) in allocated.entries() {
        if claim_resource_name(&allocated, name, errors) {
            valid_quantity(&at, errors);
        }
    }
}

fn valid_quantity(at: &At<'_>, errors: &mut Errors) {
    if let Some(amount) = Quantity::try_from(at.value).ok().filter(|amount| amount.signum() < 0) {
        errors.push(at.invalid_as(&json!(amount.value()), "must be a valid resource quantity"));
    }
}

/// Checks the name of a resource of a claim, and returns whether it is valid. The only native resource is `storage`.
fn claim_resource_name(at: &At<'_>, name: &str, errors: &mut Errors) -> bool {
    let before = errors.len();
    let value = json!(name);
    let at = At::new(at.path.clone(), &value);
    at.check(names::qualified_name, errors);
    if errors.len() == before && resource_names::is_native(name) && name != "storage" {
        errors.push(at.not_supported(&["storage"]));
    }
    errors.len() == before
}

/// Checks the name of a provisioner: a qualified name in upper or lower case.
fn provisioner(at: &At<'_>, errors: &mut Errors) {
    if at.is_empty() {
        errors.push(at.required(""));
        return;
    }
    let lower = at.text().to_lowercase();
    let complaints = names::qualified_name(&lower);
    errors.extend(complaints.into_iter().map(|complaint| at.invalid_as(&json!(lower), complaint)));
}

fn parameters(at: &At<'_>, errors: &mut Errors) {
    if at.len() > MAX_PARAMETERS {
        errors.push(at.too_long(MAX_PARAMETERS));
        return;
    }
    let mut bytes = 0;
    for (key, value) in at.entries() {
        if key.is_empty() {
            errors.push(at.invalid_as(&json!(key), "field can not be empty."));
        }
        bytes += key.len() + value.len();
    }
    if bytes > MAX_PARAMETER_BYTES {
        errors.push(at.too_long(MAX_PARAMETER_BYTES));
    }
}

pub fn class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    provisioner(&class.field("provisioner"), errors);
    parameters(&class.field("parameters"), errors);
    let reclaim = class.field("reclaimPolicy");
    if !reclaim.is_empty() && !["Delete", "Retain"].contains(&reclaim.text()) {
        errors.push(reclaim.not_supported(&["Delete", "Retain"]));
    }
    let binding = class.field("volumeBindingMode");
    if !binding.is_set() {
        errors.push(binding.required(""));
    }
    binding.check_optional_enum(&["Immediate", "WaitForFirstConsumer"], errors);
    let mut terms: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    for term in class.field("allowedTopologies").items() {
        let expressions = term.field("matchLabelExpressions");
        let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for expression in expressions.items() {
            topology(&expression, errors);
            let values = expression.field("values").items().map(|value| value.text()).collect();
            if wanted.insert(expression.field("key").text(), values).is_some() {
                errors.push(expression.field("key").duplicate());
            }
        }
        for _ in terms.iter().filter(|before| **before == wanted) {
            errors.push(At::new(expressions.path.clone(), &json!("")).duplicate());
        }
        terms.push(wanted);
    }
}

fn topology(expression: &At<'_>, errors: &mut Errors) {
    let values = expression.field("values");
    if values.is_empty() {
        errors.push(values.required(""));
    }
    let mut seen = BTreeSet::new();
    for value in values.items() {
        if !seen.insert(value.text()) {
            errors.push(value.duplicate());
        }
    }
    expression.field("key").check(names::qualified_name, errors);
}

pub fn class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
        if class.field(field).value != old.field(field).value {
            let why = match field {
                "parameters" | "provisioner" | "reclaimPolicy" => format!("updates to {field} are forbidden."),
                _ => {
                    errors.push(class.field(field).invalid(super::at::IMMUTABLE));
                    continue;
                }
            };
            errors.push(class.field(field).forbidden(why));
        }
    }
}

pub fn driver(_context: &Context<'_>, driver: &At<'_>, errors: &mut Errors) {
    let spec = driver.field("spec");
    // Kubernetes' errors show the first field under another name.
    for (field, shown) in [
        ("attachRequired", "attachedRequired"),
        ("podInfoOnMount", "podInfoOnMount"),
        ("storageCapacity", "storageCapacity"),
    ] {
        if !spec.field(field).is_set() {
            errors.push(spec.shown_at(spec.path_of(shown)).required(""));
        }
    }
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    spec.field("fsGroupPolicy").check_optional_enum(&policies, errors);
    let mut seen = Vec::new();
    for request in spec.field("tokenRequests").items() {
        let (audience, expiry) = (request.field("audience"), request.field("expirationSeconds"));
        if seen.contains(&audience.text()) {
            errors.push(audience.duplicate());
            continue;
        }
        seen.push(audience.text());
        if expiry.integer().is_some_and(|s| s < 600) {
            errors.push(expiry.invalid("may not specify a duration less than 10 minutes"));
        }
        if expiry.integer().is_some_and(|s| s > 1 << 32) {
            errors.push(expiry.invalid("may not specify a duration larger than 2^32 seconds"));
        }
    }
    let modes = spec.field("volumeLifecycleModes");
    for mode in modes.items() {
        if !["Persistent", "Ephemeral"].contains(&mode.text()) {
            errors.push(At::new(modes.path.clone(), mode.value).not_supported(&["Persistent", "Ephemeral"]));
        }
    }
    let period = spec.field("nodeAllocatableUpdatePeriodSeconds");
    if period.integer().is_some_and(|s| s < 10) {
        errors.push(period.invalid("must be greater than or equal to 10 seconds"));
    }
}

/// Returns a warning if a driver requests tokens but does not say whether they are passed as secrets. Tokens in volume
/// attributes may be logged.
pub fn driver_warnings(_context: &Context<'_>, driver: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let spec = driver.field("spec");
    if spec.field("tokenRequests").is_empty() || spec.field("serviceAccountTokenInSecrets").is_set() {
        return Vec::new();
    }
    vec![
        "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible \
         logging of tokens in volume attributes"
            .to_owned(),
    ]
}

pub fn driver_update(_context: &Context<'_>, driver: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for (field, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")] {
        let at = At::new(["spec.", shown].concat(), driver.field("spec").field(field).value);
        at.check_unchanged(&old.field("spec").field(field), errors);
    }
}

const MAX_NODE_ID_BYTES: usize = 192;

pub fn csi_node(_context: &Context<'_>, node: &At<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for driver in node.down("spec.drivers").items() {
        let (name, id) = (driver.field("name"), driver.field("nodeID"));
        csi_driver_name(&name, errors);
        if id.is_empty() {
            errors.push(id.required(""));
        } else if id.len() > MAX_NODE_ID_BYTES {
            errors.push(id.invalid(format!("must be {MAX_NODE_ID_BYTES} characters or less")));
        }
        driver.down("allocatable.count").check_non_negative(errors);
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        let mut keys = BTreeSet::new();
        for key in driver.field("topologyKeys").items() {
            // Kubernetes reports the driver's path, not the key's.
            let key = At::new(driver.path.clone(), key.value);
            if key.is_empty() {
                errors.push(key.required(""));
            }
            if !keys.insert(key.text()) {
                errors.push(key.duplicate());
            }
            key.check(names::qualified_name, errors);
        }
    }
}

/// Refuses changes of drivers that stay in the list, except of `allocatable`.
pub fn csi_node_update(_context: &Context<'_>, node: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let drivers = node.down("spec.drivers");
    for before in old.down("spec.drivers").items() {
        for driver in drivers.items().filter(|driver| driver.field("name").value == before.field("name").value) {
            if ["nodeID", "topologyKeys"].iter().any(|field| driver.field(field).value != before.field(field).value) {
                let [name, id, keys] = ["name", "nodeID", "topologyKeys"].map(|field| driver.field(field).value);
                let shown = format!("{{\"Name\":{name},\"NodeID\":{id},\"TopologyKeys\":{keys},\"Allocatable\":null}}");
                errors.push(drivers.invalid_shown(shown, super::at::IMMUTABLE));
            }
        }
    }
}

pub fn capacity_object(_context: &Context<'_>, capacity: &At<'_>, errors: &mut Errors) {
    selector::check(&capacity.field("nodeTopology"), errors);
    capacity.field("storageClassName").check(names::dns1123_subdomain, errors);
    let at = capacity.field("capacity");
    if let Some(amount) = Quantity::try_from(at.value).ok().filter(|amount| amount.signum() < 0) {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be greater than or equal to 0"));
    }
}

pub fn capacity_object_update(_context: &Context<'_>, capacity: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["nodeTopology", "storageClassName"] {
        capacity.field(field).check_unchanged(&old.field(field), errors);
    }
}

pub fn attributes_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    provisioner(&class.field("driverName"), errors);
    parameters(&class.field("parameters"), errors);
    if class.field("parameters").is_empty() {
        errors.push(class.field("parameters").required("must contain at least one key/value pair"));
    }
}

pub fn attributes_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["driverName", "parameters"] {
        if class.field(field).value != old.field(field).value {
            errors.push(class.field(field).forbidden(format!("updates to {field} are forbidden.")));
        }
    }
}

#[cfg(test)]
mod tests;
