//! Validates the spec of ResourceClaims and of their templates.
//!
//! Corresponds to validateResourceClaimSpec.

use super::identifiers::fully_qualified;
use super::{Context, MAX_CONFIGS, by_name, by_value, check_each, check_each_unique, opaque, selectors, toleration};
use crate::validation::object_meta::validate_annotations;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const MAX_REQUESTS: usize = 32;
const MAX_ALTERNATIVES: usize = 8;
const MAX_CONSTRAINTS: usize = 32;

/// Validates a ResourceClaim.
///
/// Deviation: requests with `adminAccess` are accepted in every namespace. Kubernetes requires a label of the
/// namespace.
pub fn claim(_context: &Context<'_>, claim: &At<'_>, errors: &mut Errors) {
    spec(&claim.field("spec"), errors);
}

pub fn template(_context: &Context<'_>, template: &At<'_>, errors: &mut Errors) {
    let meta = template.down("spec.metadata");
    meta.field("labels").check_labels(errors);
    validate_annotations(&meta.field("annotations"), errors);
    spec(&template.down("spec.spec"), errors);
}

/// Refuses changes of the spec of a claim or a template.
pub fn update(_context: &Context<'_>, claim: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    claim.field("spec").check_unchanged(&old.field("spec"), errors);
}

fn spec(spec: &At<'_>, errors: &mut Errors) {
    let devices = spec.field("devices");
    let names = request_names(&devices);
    check_each_unique(&devices.field("requests"), by_name, MAX_REQUESTS, errors, &request);
    check_each(&devices.field("constraints"), MAX_CONSTRAINTS, errors, &|constraint, errors| {
        request_references(constraint, &names, errors);
        let attributes = ["matchAttribute", "distinctAttribute"].map(|field| constraint.field(field));
        match attributes.iter().find(|name| name.is_set()) {
            Some(name) => fully_qualified(name, errors),
            None => errors.push(constraint.required(
                "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
            )),
        }
    });
    check_each(&devices.field("config"), MAX_CONFIGS, errors, &|config, errors| {
        request_references(config, &names, errors);
        opaque(config, errors);
    });
}

/// Returns the names of all requests, and `REQUEST/ALTERNATIVE` for each alternative.
pub fn request_names(devices: &At<'_>) -> BTreeSet<String> {
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

/// Checks the requests that a constraint or a configuration refers to.
pub fn request_references(holder: &At<'_>, known: &BTreeSet<String>, errors: &mut Errors) {
    check_each_unique(&holder.field("requests"), by_value, MAX_REQUESTS, errors, &|name, errors| {
        request_reference(name, known, errors);
    });
}

/// Checks that a name is that of a request in the claim. `known` has the names of all requests.
pub fn request_reference(name: &At<'_>, known: &BTreeSet<String>, errors: &mut Errors) {
    const UNKNOWN: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let segments = name.text().split('/');
    if segments.clone().count() <= 2 {
        for segment in segments {
            At::new(name.path.clone(), &json!(segment)).check(names::dns1123_label, errors);
        }
    }
    if !known.contains(name.text()) {
        errors.push(name.invalid_text(UNKNOWN));
    }
}

fn request(request: &At<'_>, errors: &mut Errors) {
    request.field("name").check(names::dns1123_label, errors);
    let (exactly, alternatives) = (request.field("exactly"), request.field("firstAvailable"));
    match (exactly.is_set(), !alternatives.is_empty()) {
        (true, true) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.push(request.invalid_as(&Value::Null, why));
        }
        (false, false) => errors.push(request.required("exactly one of `exactly` or `firstAvailable` is required")),
        (true, false) => requested_devices(&exactly, errors),
        (false, true) => check_each_unique(&alternatives, by_name, MAX_ALTERNATIVES, errors, &|one, errors| {
            one.field("name").check(names::dns1123_label, errors);
            requested_devices(one, errors);
        }),
    }
}

/// Checks the class, the selectors, the number and the tolerations of a request or an alternative.
fn requested_devices(request: &At<'_>, errors: &mut Errors) {
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
    request.field("tolerations").items().for_each(|item| toleration(&item, errors));
}
