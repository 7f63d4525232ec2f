//! Columns of events: time, reason, involved object and source.
//!
//! Corresponds to printEvent in pkg/printers/internalversion/printers.go. Cells read the core form, which is stored.

use super::read::{int_at, str_at};
use super::{Column, name, string, text};
use crate::meta::time;
use serde_json::{Value, json};

pub fn columns() -> Vec<Column> {
    vec![
        string("Last Seen", "When this was observed last.", |event, now| json!(last_seen(event, now))),
        text("Type", "Normal or Warning.", "/type"),
        text("Reason", "Why it happened, in one word.", "/reason"),
        string("Object", "What the event is about.", |event, _| json!(object(event))),
        text("Subobject", "The part of the object.", "/involvedObject/fieldPath").wide(),
        string("Source", "Which component reports it.", |event, _| json!(source(event))).wide(),
        string("Message", "What happened.", |event, _| json!(str_at(event, "/message").trim())),
        string("First Seen", "When this was observed first.", |event, now| json!(first_seen(event, now))).wide(),
        string("Count", "How often this was observed.", |event, _| json!(count(event))).wide(),
        name().wide(),
    ]
}

fn first_seen(event: &Value, now_s: i64) -> String {
    match str_at(event, "/firstTimestamp") {
        "" => time::since(str_at(event, "/eventTime"), now_s),
        first => time::since(first, now_s),
    }
}

fn series(event: &Value) -> Option<&Value> {
    event.get("series").filter(|series| series.is_object())
}

fn last_seen(event: &Value, now_s: i64) -> String {
    match (series(event), str_at(event, "/lastTimestamp")) {
        (Some(series), _) => time::since(str_at(series, "/lastObservedTime"), now_s),
        (None, "") => first_seen(event, now_s),
        (None, last) => time::since(last, now_s),
    }
}

fn count(event: &Value) -> i64 {
    match (series(event), int_at(event, "/count")) {
        (Some(series), _) => int_at(series, "/count"),
        // The newer form omits a count of one.
        (None, 0) => 1,
        (None, count) => count,
    }
}

fn object(event: &Value) -> String {
    let kind = str_at(event, "/involvedObject/kind").to_lowercase();
    match str_at(event, "/involvedObject/name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    }
}

fn source(event: &Value) -> String {
    let first = |old: &str, new: &str| match str_at(event, old) {
        "" => str_at(event, new).to_owned(),
        text => text.to_owned(),
    };
    let component = first("/source/component", "/reportingComponent");
    let instance = first("/source/host", "/reportingInstance");
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn old_and_new_events() {
        let cases = [
            (
                json!({"metadata": {"name": "e1"}, "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec.x"},
                    "type": "Normal", "reason": "Pulled", "message": " done\n", "count": 2,
                    "source": {"component": "kubelet", "host": "n1"},
                    "firstTimestamp": "1970-01-01T00:00:00Z", "lastTimestamp": "1970-01-01T00:05:00Z"}),
                "10s | Normal | Pulled | pod/p | spec.x | kubelet, n1 | done | 5m10s | 2 | e1",
            ),
            (
                json!({"metadata": {"name": "e2"}, "involvedObject": {"kind": "Node"}, "reason": "R", "message": "m",
                    "eventTime": "1970-01-01T00:04:40.500000Z", "reportingComponent": "c", "type": "Warning"}),
                "29s | Warning | R | node |  | c | m | 29s | 1 | e2",
            ),
            (
                json!({"metadata": {"name": "e3"}, "eventTime": "1970-01-01T00:00:00.000000Z",
                    "series": {"count": 7, "lastObservedTime": "1970-01-01T00:05:09.000000Z"}}),
                "1s |  |  |  |  |  |  | 5m10s | 7 | e3",
            ),
            (json!({}), "<unknown> |  |  |  |  |  |  | <unknown> | 1 | "),
        ];
        for (event, expected) in cases {
            assert_eq!(cells(&columns(), &event, 310), expected);
        }
    }
}
