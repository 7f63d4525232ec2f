//! The names that a definition asks for.

use proto::meta::names::dns1035_label;
use strategy::validation::at::{At, Errors};

/// The names that a definition asks for; it has to ask for four of them.
pub fn check_wanted(names: &At<'_>, errors: &mut Errors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        if names.field(key).is_empty() {
            errors.push(names.field(key).required(""));
        }
    }
    check(names, errors);
}

/// Names that are asked for, or that were accepted.
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

/// Every complaint in one error; what is absent is nobody's label.
fn check_label(at: &At<'_>, errors: &mut Errors) {
    if at.is_set() && (!at.is_empty() || at.path.ends_with(']')) {
        check_joined(at, dns1035_label, errors);
    }
}

pub fn check_joined(at: &At<'_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    let complaints = rule(at.text());
    if !complaints.is_empty() {
        errors.push(at.invalid_text(complaints.join(",")));
    }
}
