//! Volumes and claims, apart from pods.
//!
//! Corresponds to ValidatePersistentVolume and ValidatePersistentVolumeClaim of pkg/apis/core/validation.

use super::at::{At, Errors};
use super::pod::resources;
use super::selector;
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::json;

pub const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub fn access_modes(modes: &At<'_>, errors: &mut Errors) {
    let (mut alone, mut others) = (false, false);
    for mode in modes.items() {
        if !ACCESS_MODES.contains(&mode.text()) {
            errors.push(At::new(modes.path.clone(), mode.value).not_supported(ACCESS_MODES));
        }
        alone |= mode.text() == "ReadWriteOncePod";
        others |= mode.text() != "ReadWriteOncePod";
    }
    if alone && others {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

pub fn positive_storage(at: &At<'_>, errors: &mut Errors) {
    let Ok(amount) = Quantity::try_from(at.value) else { return };
    resources::check_amount(at, "storage", errors);
    if amount.is_zero() {
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
    let requested = spec.down("resources.requests").key("storage");
    if requested.is_set() {
        positive_storage(&requested, errors);
    } else {
        errors.push(spec.field("resources").key("storage").required(""));
    }
    if !spec.field("storageClassName").is_empty() {
        spec.field("storageClassName").check(names::dns1123_subdomain, errors);
    }
    spec.field("volumeMode").check_optional_enum(&["Block", "Filesystem"], errors);
    if !spec.field("volumeAttributesClassName").is_empty() {
        spec.field("volumeAttributesClassName").check(names::dns1123_subdomain, errors);
    }
}
