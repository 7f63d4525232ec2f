//! Classifies and checks the names of resources (`cpu`, `example.com/gpu`) and their amounts.
//!
//! Corresponds to pkg/apis/core/helper.

use super::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::json;

/// Resources of a quota whose amount may be a fraction.
const FRACTIONAL: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
];
const CONTAINER: &[&str] = &["cpu", "memory", "ephemeral-storage"];
/// Resources of a quota that count objects.
const WHOLE_NUMBERS: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Returns whether a quota may limit the resource. Of huge pages it may limit the requests only.
///
/// Corresponds to IsStandardQuotaResourceName.
pub fn is_quota(name: &str) -> bool {
    let is_listed = FRACTIONAL.contains(&name) || WHOLE_NUMBERS.contains(&name);
    is_listed || is_huge_page(name.strip_prefix("requests.").unwrap_or(name))
}

pub fn is_standard(name: &str) -> bool {
    is_quota(name) || name == "storage"
}

pub fn is_whole_number(name: &str) -> bool {
    WHOLE_NUMBERS.contains(&name) || is_extended(name)
}

/// Checks a resource name. Returns whether it is a qualified name, so that further checks make sense.
pub fn check_name(at: &At<'_>, name: &str, errors: &mut Errors) -> bool {
    let complaints = names::qualified_name(name);
    if !complaints.is_empty() {
        errors.extend(complaints.into_iter().map(|complaint| at.invalid_as(&json!(name), complaint)));
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        errors.push(at.invalid_as(&json!(name), "must be a standard resource type or fully qualified"));
    }
    true
}

pub fn check_container_name(at: &At<'_>, name: &str, errors: &mut Errors) {
    check_name(at, name, errors);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_huge_page(name) {
            errors.push(at.invalid_as(&json!(name), "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(at.invalid_as(&json!(name), "doesn't follow extended resource name standard"));
    }
}

/// Checks that an amount is not negative, and that it is an integer if the resource counts objects or is an extended one.
pub fn check_amount(at: &At<'_>, name: &str, errors: &mut Errors) {
    let Ok(amount) = Quantity::try_from(at.value) else { return };
    if amount.signum() < 0 {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be greater than or equal to 0"));
    }
    if is_whole_number(name) && amount.milli_value() % 1000 != 0 {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be an integer"));
    }
}
