//! Validates the names of drivers, pools, attributes and shares.
//!
//! Corresponds to ValidateCSIDriverName, validatePoolName, validateQualifiedName and validateUID.

use cel::device::MAX_DRIVER_BYTES;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::json;

const MAX_POOL_BYTES: usize = 253;
const MAX_IDENTIFIER_BYTES: usize = 32;
/// Maximum length of a domain, a slash and an identifier.
pub const MAX_QUALIFIED_BYTES: usize = MAX_DRIVER_BYTES + 1 + MAX_IDENTIFIER_BYTES;

const NOT_AN_IDENTIFIER: &str = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";

/// Checks the name of a driver: a domain, with letters of either case. Names of CSI drivers have the same form.
pub fn driver(name: &At<'_>, errors: &mut Errors) {
    if !is_present(name, MAX_DRIVER_BYTES, errors) {
        return;
    }
    let complaints = names::dns1123_subdomain(&name.text().to_lowercase());
    errors.extend(complaints.into_iter().map(|complaint| name.invalid_text(complaint)));
}

/// Checks the name of a pool: domains separated by slashes.
pub fn pool(name: &At<'_>, errors: &mut Errors) {
    if !is_present(name, MAX_POOL_BYTES, errors) {
        return;
    }
    for part in name.text().split('/') {
        At::new(name.path.clone(), &json!(part)).check(names::dns1123_subdomain, errors);
    }
}

/// Checks that a name is present and not too long. Returns false if it is absent.
fn is_present(name: &At<'_>, max_bytes: usize, errors: &mut Errors) -> bool {
    if name.is_empty() {
        errors.push(name.required(""));
    } else if name.len() > max_bytes {
        errors.push(name.too_long(max_bytes));
    }
    !name.is_empty()
}

/// Checks the name of an attribute or a capacity: a C identifier, with or without a domain.
pub fn qualified(name: &At<'_>, errors: &mut Errors) {
    let parts: Vec<&str> = name.text().split('/').collect();
    match parts[..] {
        [one] => identifier(name, one, errors),
        [domain, one] => {
            if domain.is_empty() {
                errors.push(name.invalid_as(&json!(""), "the domain must not be empty"));
            } else {
                driver(&At::new(name.path.clone(), &json!(domain)), errors);
            }
            if one.is_empty() {
                errors.push(name.invalid_as(&json!(""), "the name must not be empty"));
            } else {
                identifier(name, one, errors);
            }
        }
        // As in Kubernetes, a name with several slashes is accepted.
        _ => {}
    }
}

/// Checks the name of an attribute where a domain is required.
pub fn fully_qualified(name: &At<'_>, errors: &mut Errors) {
    qualified(name, errors);
    if !name.text().contains('/') {
        errors.push(name.invalid_text("a fully qualified name must be a domain and a name separated by a slash"));
    }
}

fn identifier(name: &At<'_>, identifier: &str, errors: &mut Errors) {
    if identifier.len() > MAX_IDENTIFIER_BYTES {
        errors.push(name.too_long(MAX_IDENTIFIER_BYTES));
    }
    let fits = identifier.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && identifier.starts_with(|first: char| !first.is_ascii_digit());
    if !fits {
        errors.push(name.invalid_as(&json!(identifier), NOT_AN_IDENTIFIER));
    }
}

/// Checks the identifier of a share, which is a part of a device: a lowercase UUID.
pub fn share_id(uid: &At<'_>, errors: &mut Errors) {
    let is_digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    let groups = uid.text().split('-').map(|group| (group.len(), group.bytes().all(is_digit)));
    if !groups.eq([8, 4, 4, 4, 12].map(|length| (length, true))) {
        errors.push(uid.invalid("must be a lowercase UUID in 8-4-4-4-12 format"));
    }
}
