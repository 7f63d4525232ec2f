//! The names that a definition asks for.

use crate::registry::validation::at::{At, Errors};
use proto::meta::names::dns1035_label;
use serde_json::json;

pub fn check(names: &At<'_>, errors: &mut Errors) {
    names.field("plural").check_required(dns1035_label, errors);
    let singular = names.field("singular");
    if !singular.is_empty() {
        singular.check(dns1035_label, errors);
    }
    for key in ["kind", "listKind"] {
        let kind = names.field(key);
        if kind.text().is_empty() {
            errors.push(kind.required(""));
        } else {
            let complaints = dns1035_label(&kind.text().to_lowercase());
            let invalid =
                |complaint| kind.invalid(format!("may have mixed case, but should otherwise match: {complaint}"));
            errors.extend(complaints.into_iter().map(invalid));
        }
    }
    for key in ["shortNames", "categories"] {
        names.field(key).items().for_each(|name| name.check(dns1035_label, errors));
    }
    let list_kind = names.field("listKind");
    if !list_kind.text().is_empty() && list_kind.text() == names.field("kind").text() {
        errors.push(list_kind.invalid_as(&json!(list_kind.text()), "kind and listKind may not be the same"));
    }
}
