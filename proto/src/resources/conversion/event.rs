//! Converts events between the core group and events.k8s.io, which name the same fields differently.
//!
//! Corresponds to pkg/apis/events/v1/conversion.go. The core form is stored.

use serde_json::{Map, Value, json};

/// Names of fields in events.k8s.io and in the core group.
const NAMES: &[(&str, &str)] = &[
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

/// Returns the fields that the core form always has, with their empty values.
fn core_always() -> [(&'static str, Value); 7] {
    [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ]
}

/// Returns the fields that the form of events.k8s.io always has, with their empty values.
fn new_always() -> [(&'static str, Value); 5] {
    [
        ("regarding", json!({})),
        ("eventTime", Value::Null),
        ("deprecatedSource", json!({})),
        ("deprecatedFirstTimestamp", Value::Null),
        ("deprecatedLastTimestamp", Value::Null),
    ]
}

/// Converts from events.k8s.io to the core group.
pub fn to_core(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        rename(fields, NAMES.iter().copied());
        complete(fields, &core_always());
    }
    event["apiVersion"] = json!("v1");
    event
}

/// Converts from the core group to events.k8s.io.
pub fn from_core(mut event: Value) -> Value {
    if let Some(fields) = event.as_object_mut() {
        rename(fields, NAMES.iter().map(|(new, core)| (*core, *new)));
        // The core form has these even if they are empty.
        for name in ["reportingController", "reportingInstance"] {
            if fields.get(name).is_some_and(|v| v == "") {
                fields.remove(name);
            }
        }
        complete(fields, &new_always());
    }
    event["apiVersion"] = json!("events.k8s.io/v1");
    event
}

fn rename<'a>(fields: &mut Map<String, Value>, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

fn complete(fields: &mut Map<String, Value>, always: &[(&str, Value)]) {
    for (name, empty) in always {
        fields.entry(*name).or_insert_with(|| empty.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_event_as_the_new_group_shows_it() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"},
            "involvedObject": {"kind": "Pod", "name": "p"}, "reason": "R", "message": "m",
            "source": {"component": "c", "host": "h"}, "count": 2, "type": "Normal",
            "firstTimestamp": "2024-03-01T10:00:00Z", "lastTimestamp": "2024-03-01T10:00:09Z",
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        });
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "regarding": {"kind": "Pod", "name": "p"}, "reason": "R", "note": "m",
            "deprecatedSource": {"component": "c", "host": "h"}, "deprecatedCount": 2, "type": "Normal",
            "deprecatedFirstTimestamp": "2024-03-01T10:00:00Z", "deprecatedLastTimestamp": "2024-03-01T10:00:09Z",
            "eventTime": null,
        });
        assert_eq!(from_core(core.clone()), new);
        assert_eq!(to_core(new), core);
    }

    #[test]
    fn a_new_event_is_stored_with_all_that_the_core_form_shows() {
        let new = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"},
            "eventTime": "2024-05-01T10:00:00.500000Z", "reportingController": "example.com/c",
            "reportingInstance": "c-1", "action": "Did", "reason": "Because", "note": "n", "type": "Warning",
            "regarding": {"kind": "Pod"}, "related": {"kind": "Node", "name": "n1"}, "series": {"count": 4},
        });
        let core = to_core(new);
        assert_eq!(core["involvedObject"], json!({"kind": "Pod"}));
        assert_eq!(core["source"], json!({}));
        assert_eq!(core["firstTimestamp"], Value::Null);
        assert_eq!(core["reportingComponent"], "example.com/c");
        assert_eq!(core["series"], json!({"count": 4}));
        assert_eq!(core.get("regarding"), None);
        let back = from_core(core);
        assert_eq!(back["deprecatedSource"], json!({}));
        assert_eq!(back["reportingInstance"], "c-1");
        assert_eq!(back.get("deprecatedCount"), None);
    }
}
