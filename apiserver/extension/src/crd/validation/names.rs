//! Validates the names of a definition.

use proto::meta::names::dns1035_label;
use strategy::validation::at::{At, Errors};

/// Checks `spec.names`. Four of the names are required.
pub fn check_spec_names(names: &At<'_>, errors: &mut Errors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        if names.field(key).is_empty() {
            errors.push(names.field(key).required(""));
        }
    }
    check(names, errors);
}

/// Checks `spec.names` or `status.acceptedNames`.
pub fn check(names: &At<'_>, errors: &mut Errors) {
    for key in ["plural", "singular"] {
        check_label(&names.field(key), errors);
    }
    for kind in ["kind", "listKind"].map(|key| names.field(key)) {
        let complaints = dns1035_label(&kind.text().to_lowercase());
        if !kind.is_empty() && !complaints.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
            errors.push(kind.invalid(why));
        }
    }
    names.field("shortNames").items().for_each(|name| check_label(&name, errors));
    let list_kind = names.field("listKind");
    if !list_kind.is_empty() && list_kind.text() == names.field("kind").text() {
        errors.push(list_kind.invalid("kind and listKind may not be the same"));
    }
    names.field("categories").items().for_each(|name| check_label(&name, errors));
}

/// Checks a label if there is one. An empty text counts as one only in a list.
fn check_label(at: &At<'_>, errors: &mut Errors) {
    if at.is_set() && (!at.is_empty() || at.path.ends_with(']')) {
        check_joined(at, dns1035_label, errors);
    }
}

/// Adds one error with all complaints of a rule about a text.
pub fn check_joined(at: &At<'_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let complaints = rule(at.text());
    if !complaints.is_empty() {
        errors.push(at.invalid_text(complaints.join(",")));
    }
}
