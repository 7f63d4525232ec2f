//! Validates StorageVersionMigrations: the resource that is migrated, and how far the migration has come.
//!
//! Corresponds to pkg/apis/storagemigration/validation.

use super::conditions;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};

type Context<'a> = WriteContext<'a>;

pub fn create(_context: &Context<'_>, migration: &At<'_>, errors: &mut Errors) {
    let resource = migration.down("spec.resource.resource");
    if resource.is_empty() {
        errors.push(resource.required("resource is required"));
    }
}

pub fn update(_context: &Context<'_>, migration: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["group", "resource"] {
        let path = format!("spec.resource.{field}");
        // Kubernetes names these fields without the object around them.
        migration.down(&path).shown_at(field).check_unchanged(&old.down(&path), errors);
    }
}

pub fn status(_context: &Context<'_>, migration: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (version, before) = (migration.down("status.resourceVersion"), old.down("status.resourceVersion"));
    if !version.is_empty() {
        match version.text().parse::<i64>() {
            Ok(number) if number < 0 => {
                errors.push(version.invalid_as(&number.into(), "must be greater than or equal to 0"));
            }
            Ok(_) => {}
            Err(_) => errors.push(version.invalid(format!("failed to parse resource version {:?}", version.text()))),
        }
    }
    let list = migration.down("status.conditions");
    conditions::check(&list, errors);
    if !before.is_empty() && before.text() != version.text() {
        errors.push(version.invalid_text("cannot be updated"));
    }
    let [running, succeeded, failed] = ["Running", "Succeeded", "Failed"].map(|kind| holds(migration, kind));
    let [did_succeed, did_fail] = ["Succeeded", "Failed"].map(|kind| holds(old, kind));
    for (is_wrong, why) in [
        (succeeded && failed, "Both success and failed conditions cannot be true at the same time"),
        (succeeded && running, "Running condition cannot be true when success condition is true"),
        (failed && running, "Running condition cannot be true when failed condition is true"),
        (did_succeed && !succeeded, "Success condition cannot be set to false once it is true"),
        (did_fail && !failed, "Failed condition cannot be set to false once it is true"),
    ] {
        errors.extend(is_wrong.then(|| list.invalid(why)));
    }
}

fn holds(migration: &At<'_>, kind: &str) -> bool {
    let mut conditions = migration.down("status.conditions").items();
    conditions.any(|it| it.field("type").text() == kind && it.field("status").text() == "True")
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update, update_of};
    use serde_json::{Value, json};

    fn migration(status: Value) -> Value {
        json!({
            "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
            "metadata": {"name": "m"}, "spec": {"resource": {"group": "apps", "resource": "deployments"}}, "status": status,
        })
    }

    #[test]
    fn a_migration_is_of_one_resource() {
        let mut none = migration(json!({}));
        none["spec"]["resource"]["resource"] = json!("");
        assert_eq!(create(none.clone()), ["spec.resource.resource: Required value: resource is required"]);
        let mut other = migration(json!({}));
        other["spec"]["resource"]["group"] = json!("");
        assert_eq!(update(migration(json!({})), other), ["group: Invalid value: \"\": field is immutable"]);
    }

    #[test]
    fn the_status_only_goes_on() {
        let condition = |kind: &str| {
            json!({
                "type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"
            })
        };
        let after = |old: Value, new: Value| update_of("status", migration(old), migration(new));
        assert_eq!(after(json!({}), json!({"resourceVersion": "7", "conditions": [condition("Running")]})), [""; 0]);
        assert_eq!(
            after(json!({}), json!({"resourceVersion": "a"})),
            ["status.resourceVersion: Invalid value: \"a\": failed to parse resource version \"a\""]
        );
        assert_eq!(
            after(json!({"resourceVersion": "7"}), json!({"resourceVersion": "8"})),
            ["status.resourceVersion: Invalid value: \"8\": cannot be updated"]
        );
        let both = after(json!({}), json!({"conditions": [condition("Running"), condition("Succeeded")]}));
        assert!(both[0].ends_with("Running condition cannot be true when success condition is true"), "{both:?}");
        let undone = after(json!({"conditions": [condition("Failed")]}), json!({"conditions": []}));
        assert!(undone[0].ends_with("Failed condition cannot be set to false once it is true"), "{undone:?}");
    }
}
