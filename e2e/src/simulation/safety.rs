//! What must hold at every step, whatever goes wrong: judged on each revision as it is written.
//!
//! A rule keeps what it needs of the objects it has seen, and complains in one sentence.

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

/// One promise about every state of the store.
trait Rule: Send {
    /// Keys that the rule cares for begin with one of these.
    fn prefixes(&self) -> &'static [&'static str];

    /// `value` is the object as it is now; `None`: it is gone.
    fn judge(&mut self, key: &str, value: Option<&[u8]>, when: When<'_>) -> Result<(), Complaint>;
}

/// One revision in the making.
#[derive(Clone, Copy)]
struct When<'a> {
    at: Timestamp,
    revision: u64,
    /// What the controller that made it had been shown; `None` where it was none, or cannot be told apart.
    known: Option<&'a Known>,
}

/// A broken promise, and the keys of the objects beside the one that was written.
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

/// The part of an object that a rule looks at; `None` for one that is gone.
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
