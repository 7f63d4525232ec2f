//! `Safety`: the invariants that every revision must keep, checked when it is written.
//!
//! A rule keeps the state that it needs, and reports a violation in one sentence.

mod addresses;
mod identity;
mod nodes;
mod rollouts;
mod seen;

use super::insight::Known;
use super::verdict::Verdict;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use storage::Event;

/// One invariant of the store.
trait Rule: Send {
    /// Returns the prefixes of the keys that the rule checks.
    fn prefixes(&self) -> &'static [&'static str];

    /// Checks a revision; `value` is the new object, or `None` for a deletion.
    fn judge(&mut self, key: &str, value: Option<&[u8]>, when: When<'_>) -> Result<(), Complaint>;
}

/// The revision that is being written.
#[derive(Clone, Copy)]
struct When<'a> {
    at: Timestamp,
    revision: u64,
    /// State of the controller that wrote it; `None` if it was another writer, or is unknown.
    known: Option<&'a Known>,
}

/// A violation, and the keys of further objects besides the written one.
struct Complaint {
    what: String,
    concerned: Vec<String>,
}

impl Complaint {
    fn new(what: String) -> Self {
        Self { what, concerned: Vec::new() }
    }

    fn about(what: String, concerned: impl IntoIterator<Item = String>) -> Self {
        Self { what, concerned: concerned.into_iter().collect() }
    }
}

/// Reads the fields of an object that a rule checks; `None` for a deletion.
fn read<T: DeserializeOwned>(key: &str, value: Option<&[u8]>) -> Result<Option<T>, Complaint> {
    let read = value.map(serde_json::from_slice).transpose();
    read.map_err(|error| Complaint::new(format!("{key} cannot be read: {error}")))
}

pub struct Safety {
    verdict: Verdict,
    rules: Vec<Box<dyn Rule>>,
}

impl Safety {
    pub fn new(verdict: &Verdict) -> Self {
        let rules: Vec<Box<dyn Rule>> = vec![
            Box::<identity::Identity>::default(),
            Box::<nodes::Nodes>::default(),
            Box::<addresses::Addresses>::default(),
            Box::<rollouts::Rollouts>::default(),
        ];
        Self { verdict: verdict.clone(), rules }
    }

    pub fn judge(&mut self, event: &Arc<Event>, now: Timestamp, known: Option<&Known>) {
        let when = When { at: now, revision: event.revision, known };
        let key = &*event.key;
        let value = event.current.as_ref().map(|entry| &*entry.value);
        for rule in &mut self.rules {
            if !rule.prefixes().iter().any(|prefix| key.starts_with(prefix)) {
                continue;
            }
            if let Err(Complaint { what, concerned }) = rule.judge(key, value, when) {
                let concerned = std::iter::once(key.to_owned()).chain(concerned);
                self.verdict.violated(format!("{now} revision {}: {what}", event.revision), concerned);
            }
        }
    }
}

#[cfg(test)]
mod tests;
