//! Validates the metadata of objects of every kind.
//!
//! Corresponds to k8s.io/apimachinery/pkg/api/validation/objectmeta.go and ValidateObjectMeta of
//! pkg/apis/core/validation.

use super::at::{At, Errors};
use proto::gvk::split_api_version;
use proto::meta::names;
use request::options::check_field_manager;
use serde_json::{Value, json};

/// Checks a name and returns what is wrong with it. The flag is set if the name is a prefix, the value of `generateName`.
pub type NameRule = fn(&str, bool) -> Vec<String>;

const MAX_SUBRESOURCE_BYTES: usize = 256;

pub const ORPHAN: &str = "orphan";
pub const FOREGROUND: &str = "foregroundDeletion";

fn masked(check: fn(&str) -> Vec<String>, name: &str, is_prefix: bool) -> Vec<String> {
    if is_prefix { check(&names::mask_trailing_dash(name)) } else { check(name) }
}

/// Checks a DNS subdomain such as `web.example.com`, the name of most kinds.
pub fn subdomain(name: &str, is_prefix: bool) -> Vec<String> {
    masked(names::dns1123_subdomain, name, is_prefix)
}

/// Checks a DNS label such as `web`, the name of Namespaces and StatefulSets.
pub fn label(name: &str, is_prefix: bool) -> Vec<String> {
    masked(names::dns1123_label, name, is_prefix)
}

/// Checks one segment of a URL path, the name of RBAC kinds.
pub fn path_segment(name: &str, _is_prefix: bool) -> Vec<String> {
    names::path_segment(name)
}

/// Checks the metadata of an object with the name rule of its kind.
pub fn validate(meta: &At<'_>, namespaced: bool, rule: NameRule, errors: &mut Errors) {
    let generate_name = meta.field("generateName");
    if !generate_name.text().is_empty() {
        let complaints = rule(generate_name.text(), true);
        errors.extend(complaints.into_iter().map(|complaint| generate_name.invalid(complaint)));
    }
    let name = meta.field("name");
    if name.text().is_empty() {
        errors.push(name.required("name or generateName is required"));
    } else {
        errors.extend(rule(name.text(), false).into_iter().map(|complaint| name.invalid(complaint)));
    }
    let namespace = meta.field("namespace");
    match (namespaced, namespace.text()) {
        (true, "") => errors.push(namespace.required("")),
        (true, _) => namespace.check(names::dns1123_label, errors),
        (false, "") => {}
        (false, _) => errors.push(namespace.forbidden("not allowed on this type")),
    }
    meta.field("generation").check_non_negative(errors);
    meta.field("labels").check_labels(errors);
    validate_annotations(&meta.field("annotations"), errors);
    validate_owner_references(&meta.field("ownerReferences"), errors);
    validate_finalizers(&meta.field("finalizers"), errors);
    validate_managed_fields(&meta.field("managedFields"), errors);
}

/// Checks the finalizers of built-in kinds, in addition to `validate`.
pub fn validate_core_finalizers(meta: &At<'_>, errors: &mut Errors) {
    for finalizer in meta.field("finalizers").items() {
        check_qualified_or_standard(&finalizer, errors);
    }
}

/// Checks that a finalizer without a domain is one of Kubernetes' standard finalizers.
pub fn check_qualified_or_standard(finalizer: &At<'_>, errors: &mut Errors) {
    let standard = ["kubernetes", ORPHAN, FOREGROUND];
    if !finalizer.text().contains('/') && !standard.contains(&finalizer.text()) {
        errors.push(finalizer.invalid("name is neither a standard finalizer name nor is it fully qualified"));
    }
}

pub fn validate_annotations(annotations: &At<'_>, errors: &mut Errors) {
    let mut bytes = 0;
    for (key, value) in annotations.map().into_iter().flatten() {
        let complaints = names::qualified_name(&key.to_lowercase());
        errors.extend(complaints.into_iter().map(|complaint| annotations.invalid_as(&json!(key), complaint)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > names::ANNOTATIONS_BYTES {
        errors.push(annotations.too_long(names::ANNOTATIONS_BYTES));
    }
}

fn validate_owner_references(owners: &At<'_>, errors: &mut Errors) {
    let mut controller: Option<String> = None;
    for owner in owners.items() {
        // Kubernetes leaves the index out of these paths.
        let owner = At::new(owners.path.clone(), owner.value);
        let (group, version) = split_api_version(owner.field("apiVersion").text());
        // An `apiVersion` with more than one slash has neither group nor version.
        let (group, version) = if version.contains('/') { ("", "") } else { (group, version) };
        let kind = owner.field("kind");
        if version.is_empty() {
            errors.push(owner.field("apiVersion").invalid_text("version must not be empty"));
        }
        for (field, what) in [("kind", "kind"), ("name", "name"), ("uid", "uid")] {
            if owner.field(field).text().is_empty() {
                errors.push(owner.field(field).invalid_text(format!("{what} must not be empty")));
            }
        }
        if group.is_empty() && version == "v1" && kind.text() == "Event" {
            errors.push(owner.invalid("/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner.field("controller").is_true() {
            let this = format!("{}/{}", kind.text(), owner.field("name").text());
            match &controller {
                Some(first) => errors.push(owners.invalid(format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                ))),
                None => controller = Some(this),
            }
        }
    }
}

fn validate_finalizers(finalizers: &At<'_>, errors: &mut Errors) {
    let mut both = [false, false];
    for finalizer in finalizers.items() {
        let complaints = names::qualified_name(finalizer.text());
        errors.extend(complaints.into_iter().map(|complaint| finalizers.invalid_as(finalizer.value, complaint)));
        both[0] |= finalizer.text() == ORPHAN;
        both[1] |= finalizer.text() == FOREGROUND;
    }
    if both == [true, true] {
        errors.push(finalizers.invalid(format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set")));
    }
}

/// Checks an update of metadata: identity does not change, and new finalizers are refused during deletion.
pub fn validate_update(meta: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if old.field("deletionTimestamp").is_set() {
        refuse_new_finalizers(&meta.field("finalizers"), &old.field("finalizers"), errors);
    }
    if meta.field("generation").integer().unwrap_or(0) < old.field("generation").integer().unwrap_or(0) {
        errors.push(meta.field("generation").invalid("must not be decremented"));
    }
    for field in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        meta.field(field).check_unchanged(&old.field(field), errors);
    }
    meta.field("labels").check_labels(errors);
    validate_annotations(&meta.field("annotations"), errors);
    validate_owner_references(&meta.field("ownerReferences"), errors);
    validate_managed_fields(&meta.field("managedFields"), errors);
}

/// Checks managed fields. All entries can be decoded: a request with others keeps those of the stored object.
fn validate_managed_fields(entries: &At<'_>, errors: &mut Errors) {
    for entry in entries.items() {
        let (manager, subresource) = (entry.field("manager"), entry.field("subresource"));
        check_field_manager(manager.text(), &manager.path, errors);
        if subresource.len() > MAX_SUBRESOURCE_BYTES {
            errors.push(subresource.too_long(MAX_SUBRESOURCE_BYTES));
        }
    }
}

fn refuse_new_finalizers(finalizers: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let before: Vec<&Value> = old.items().map(|finalizer| finalizer.value).collect();
    let mut new: Vec<&str> =
        finalizers.items().filter(|finalizer| !before.contains(&finalizer.value)).map(|f| f.text()).collect();
    if !new.is_empty() {
        new.sort_unstable();
        let shown: Vec<String> = new.iter().map(|name| format!("{name:?}")).collect();
        let shown = shown.join(", ");
        errors.push(finalizers.forbidden(format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{shown}}}"
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(meta: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        validate(&At::new("metadata", meta), true, subdomain, &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn all_fields_of_metadata_are_checked() {
        assert_eq!(errors(&json!({"name":"web","namespace":"shop","labels":{"a":"b"}})), Vec::<String>::new());
        assert_eq!(
            errors(&json!({"namespace":"shop"})),
            ["metadata.name: Required value: name or generateName is required"]
        );
        assert_eq!(errors(&json!({"name":"web"})), ["metadata.namespace: Required value"]);
        let owner = json!({"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","controller":true});
        let found = errors(&json!({"name":"web","namespace":"shop","ownerReferences":[owner, owner]}));
        assert!(found[0].ends_with(r#"Found "true" in references for Pod/p and Pod/p"#), "{found:?}");
        assert_eq!(
            errors(
                &json!({"name":"web","namespace":"shop","ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}]})
            ),
            ["metadata.ownerReferences.uid: Invalid value: \"\": uid must not be empty"]
        );
        let named = |manager: &str, subresource: &str| {
            errors(&json!({"name":"web","namespace":"shop","managedFields":[
                {"manager":manager,"operation":"Update","apiVersion":"v1","fieldsType":"FieldsV1","subresource":subresource},
            ]}))
        };
        assert_eq!(named("kubectl", "status"), [""; 0]);
        assert_eq!(
            named(&"m".repeat(129), &"s".repeat(257)),
            [
                "metadata.managedFields[0].manager: Too long: may not be more than 128 bytes",
                "metadata.managedFields[0].subresource: Too long: may not be more than 256 bytes",
            ]
        );
        assert_eq!(
            named("a\n", ""),
            [r#"metadata.managedFields[0].manager: Invalid value: "a\n": invalid character U+000A (at position 1)"#]
        );
        assert_eq!(
            errors(
                &json!({"name":"web","namespace":"shop","ownerReferences":[{"apiVersion":"a/b/c","kind":"Pod","name":"p","uid":"u"}]})
            ),
            ["metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty"]
        );
        let big = "x".repeat(names::ANNOTATIONS_BYTES);
        assert_eq!(
            errors(&json!({"name":"web","namespace":"shop","annotations":{"a":big}})),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"]
        );
        assert!(errors(&json!({"generateName":"web-","name":"web-x","namespace":"shop"})).is_empty());
    }

    #[test]
    fn identity_does_not_change() {
        let old = json!({"name":"web","uid":"u","deletionTimestamp":"t","finalizers":["a/b"]});
        let new = json!({"name":"web","uid":"v","deletionTimestamp":"t","finalizers":["a/b","c/d"]});
        let mut errors = Errors::new();
        validate_update(&At::new("metadata", &new), &At::new("metadata", &old), &mut errors);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"c/d\"}",
                "metadata.uid: Invalid value: \"v\": field is immutable",
            ]
        );
    }
}
