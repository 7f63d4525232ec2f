//! `History`: keeps every revision of the store in order, and prints timelines of single objects for reports.

use jiff::Timestamp;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use storage::{Event, EventKind};

/// Most bytes of values that are kept. The oldest revisions are dropped first, and are then missing from timelines.
const KEPT_BYTES: usize = 192 << 20;
/// Most changed fields in one line of a timeline.
const SHOWN_CHANGES: usize = 8;
/// Most characters of a changed value.
const SHOWN_CHARS: usize = 120;

/// A revision and the time at which it was written.
#[derive(Clone, Debug)]
pub struct TimedEvent {
    pub at: Timestamp,
    pub event: Arc<Event>,
}

#[derive(Debug, Default)]
pub struct History {
    events: VecDeque<TimedEvent>,
    bytes: usize,
    /// Revisions with their keys, by row. They are small, so they are never dropped.
    rows: BTreeMap<String, Vec<(u64, String)>>,
}

/// Returns the row of a key: `/registry/pods/` for `/registry/pods/default/web`. Services and Endpoints share one row
/// here.
fn row_of(key: &str) -> &str {
    let end = key.match_indices('/').nth(2).map_or(key.len(), |(at, _)| at + 1);
    &key[..end]
}

impl History {
    pub fn push(&mut self, at: Timestamp, event: &Arc<Event>) {
        self.rows.entry(row_of(&event.key).to_owned()).or_default().push((event.revision, event.key.to_string()));
        self.bytes += bytes(event);
        self.events.push_back(TimedEvent { at, event: event.clone() });
        while self.bytes > KEPT_BYTES
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= bytes(&oldest.event);
        }
    }

    /// Returns the revisions above `after` of keys below `prefix`, in order.
    pub fn revisions(&self, prefix: &str, after: u64) -> impl Iterator<Item = u64> + '_ {
        let row = self.rows.get(row_of(prefix)).map(Vec::as_slice).unwrap_or_default();
        let from = row.partition_point(|(revision, _)| *revision <= after);
        let prefix = prefix.to_owned();
        row[from..].iter().filter(move |(_, key)| key.starts_with(&prefix)).map(|(revision, _)| *revision)
    }

    /// Returns the kept changes after a revision.
    pub fn since(&self, after: u64) -> impl Iterator<Item = &TimedEvent> + '_ {
        let from = self.events.partition_point(|timed| timed.event.revision <= after);
        self.events.range(from..)
    }

    /// Returns the timeline of a key: a line for each of its last revisions, `lines` at most.
    pub fn timeline(&self, key: &str, lines: usize) -> Vec<(Timestamp, String)> {
        let of_key: Vec<&TimedEvent> = self.events.iter().filter(|timed| *timed.event.key == *key).collect();
        of_key[of_key.len().saturating_sub(lines)..].iter().map(|timed| (timed.at, line(timed))).collect()
    }
}

fn bytes(event: &Event) -> usize {
    event.current.as_ref().map_or(0, |entry| entry.value.len())
}

fn line(timed: &TimedEvent) -> String {
    let Event { revision, key, current, previous } = &*timed.event;
    let value = |entry: &Option<storage::Entry>| {
        entry.as_ref().and_then(|entry| serde_json::from_slice(&entry.value).ok()).unwrap_or(Value::Null)
    };
    let what = match (timed.event.kind(), previous) {
        (EventKind::Delete, _) => "gone".to_owned(),
        (EventKind::Put, None) => "new".to_owned(),
        (EventKind::Put, Some(_)) => changes(&value(previous), &value(current)),
    };
    format!("{revision} {key}: {what}")
}

/// Returns the fields in which two objects differ, as `status.phase Pending → Running`.
pub fn changes(before: &Value, after: &Value) -> String {
    let mut found = Vec::new();
    collect("", before, after, &mut found);
    found.retain(|(path, _)| !path.starts_with("metadata.managedFields"));
    let more = found.len().saturating_sub(SHOWN_CHANGES);
    let mut shown: Vec<String> =
        found.into_iter().take(SHOWN_CHANGES).map(|(path, to)| format!("{path} {to}")).collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    if shown.is_empty() { "nothing but managed fields".to_owned() } else { shown.join(", ") }
}

fn collect(path: &str, before: &Value, after: &Value, found: &mut Vec<(String, String)>) {
    let below =
        |name: &dyn std::fmt::Display| if path.is_empty() { name.to_string() } else { format!("{path}.{name}") };
    match (before, after) {
        (before, after) if before == after => {}
        (Value::Object(old), Value::Object(new)) => {
            let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let of = |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or_default();
                collect(&below(name), &of(old), &of(new), found);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (at, (old, new)) in old.iter().zip(new).enumerate() {
                collect(&below(&at), old, new, found);
            }
        }
        _ => found.push((path.to_owned(), format!("{} → {}", short(before), short(after)))),
    }
}

fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match text.char_indices().nth(SHOWN_CHARS) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_key_has_a_row() {
        assert_eq!(row_of("/registry/pods/default/web"), "/registry/pods/");
        assert_eq!(row_of("/registry/pods/"), "/registry/pods/");
    }

    #[test]
    fn changes_name_fields() {
        let before = json!({"spec": {"nodeName": null, "x": [1, 2]}, "status": {"phase": "Pending"}});
        let after = json!({"spec": {"nodeName": "node-1", "x": [1, 3]}, "status": {"phase": "Running"}});
        let expected = "spec.nodeName null → node-1, spec.x.1 2 → 3, status.phase Pending → Running";
        assert_eq!(changes(&before, &after), expected);
    }
}
