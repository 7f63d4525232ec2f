//! Validates Events, as the core group and events.k8s.io do.
//!
//! Corresponds to pkg/apis/core/validation/events.go.

use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use serde_json::json;

const MAX_WORD_BYTES: usize = 128;
const MAX_NOTE_BYTES: usize = 1024;

/// Returns whether the request uses events.k8s.io, which requires fields that are optional in the core group.
fn is_strict(context: &WriteContext<'_>) -> bool {
    context.served.group == "events.k8s.io"
}

pub fn create(context: &WriteContext<'_>, event: &At<'_>, errors: &mut Errors) {
    common_fields(context, event, errors);
    if !is_strict(context) {
        return;
    }
    event.down("metadata.name").check(names::dns1123_subdomain, errors);
    series(&event.field("series"), errors);
    if !event.field("eventTime").is_set() {
        errors.push(event.field("eventTime").required(""));
    }
    let kind = event.field("type");
    if !["Normal", "Warning"].contains(&kind.text()) {
        errors.push(kind.invalid_as(&json!(""), format!("has invalid value: {}", kind.text())));
    }
    // The deprecated fields must be unset.
    for field in ["firstTimestamp", "lastTimestamp", "count", "source"] {
        let at = event.field(field);
        let is_set = at.integer().is_some_and(|count| count != 0)
            || at.value.is_string()
            || ["component", "host"].iter().any(|part| !at.field_if_defined(part).is_empty());
        if is_set {
            errors.push(at.invalid_as(&json!(""), "needs to be unset"));
        }
    }
}

fn series(series: &At<'_>, errors: &mut Errors) {
    if !series.is_set() {
        return;
    }
    if series.field("count").integer().unwrap_or(0) < 2 {
        errors.push(series.field("count").invalid_as(&json!(""), "should be at least 2"));
    }
    if !series.field("lastObservedTime").is_set() {
        errors.push(series.field("lastObservedTime").required(""));
    }
}

/// Checks the rules that both groups share.
fn common_fields(context: &WriteContext<'_>, event: &At<'_>, errors: &mut Errors) {
    let namespace = event.down("metadata.namespace");
    let involved = event.down("involvedObject.namespace");
    let is_new = event.field("eventTime").is_set();
    let matches = match involved.text() {
        "" => namespace.text() == "default" || (is_new && namespace.text() == "kube-system"),
        involved => is_new || involved == namespace.text(),
    };
    if !matches {
        errors.push(involved.invalid_text("does not match event.namespace"));
    }
    if is_new {
        let controller = event.field("reportingComponent");
        let shown = if context.served.group.is_empty() { "reportingComponent" } else { "reportingController" };
        let controller = At::new(shown, controller.value);
        if controller.is_empty() {
            errors.push(controller.required(""));
        }
        controller.check(names::qualified_name, errors);
        for field in ["reportingInstance", "action", "reason"] {
            if event.field(field).is_empty() {
                errors.push(event.field(field).required(""));
            }
            check_length(&event.field(field), MAX_WORD_BYTES, errors);
        }
        check_length(&event.field("message"), MAX_NOTE_BYTES, errors);
    }
    At::new("namespace", namespace.value).check(names::dns1123_subdomain, errors);
}

fn check_length(at: &At<'_>, max: usize, errors: &mut Errors) {
    if at.len() > max {
        errors.push(at.invalid_as(&json!(""), format!("can have at most {max} characters")));
    }
}

/// Checks an update. In events.k8s.io only `series` and the metadata may change.
pub fn update(context: &WriteContext<'_>, event: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    common_fields(context, event, errors);
    if !is_strict(context) {
        return;
    }
    if event.field("series").value != old.field("series").value {
        series(&event.field("series"), errors);
    }
    for (field, shown) in [
        ("involvedObject", "involvedObject"),
        ("reason", "reason"),
        ("message", "message"),
        ("source", "source"),
        ("firstTimestamp", "firstTimestamp"),
        ("lastTimestamp", "lastTimestamp"),
        ("count", "count"),
        ("reason", "reason"),
        ("type", "type"),
        ("eventTime", "eventTime"),
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        At::new(shown, event.field(field).value).check_unchanged(&old.field(field), errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{create, update};
    use serde_json::{Value, json};

    fn event(version: &str, more: Value) -> Value {
        let about = if version == "v1" { "involvedObject" } else { "regarding" };
        let mut event =
            json!({"apiVersion": version, "kind": "Event", about: {"kind": "Pod", "name": "p", "namespace": "shop"}});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    }

    #[test]
    fn the_new_group_requires_more_fields() {
        assert_eq!(create(event("v1", json!({}))), [""; 0]);
        assert_eq!(
            create(event("v1", json!({"involvedObject": {"namespace": "other"}}))),
            ["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"]
        );
        let time = "2024-01-01T00:00:00.000000Z";
        assert_eq!(
            create(event("v1", json!({"eventTime": time, "reportingComponent": "c", "action": "a".repeat(129)}))),
            [
                "reportingInstance: Required value",
                "action: Invalid value: \"\": can have at most 128 characters",
                "reason: Required value",
            ]
        );
        assert_eq!(
            create(event(
                "events.k8s.io/v1",
                json!({"type": "Odd", "series": {"count": 1, "lastObservedTime": null}, "deprecatedCount": 2})
            )),
            [
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
                "eventTime: Required value",
                "type: Invalid value: \"\": has invalid value: Odd",
                "count: Invalid value: \"\": needs to be unset",
            ]
        );
    }

    #[test]
    fn an_event_of_the_new_group_is_immutable() {
        let whole = json!({
            "eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "c", "reportingInstance": "i",
            "action": "a", "reason": "r", "type": "Normal", "note": "n",
        });
        let old = event("events.k8s.io/v1", whole);
        let mut new = old.clone();
        new["note"] = json!("other");
        new["type"] = json!("Warning");
        assert_eq!(
            update(old, new),
            [
                "message: Invalid value: \"other\": field is immutable",
                "type: Invalid value: \"Warning\": field is immutable"
            ]
        );
    }
}
