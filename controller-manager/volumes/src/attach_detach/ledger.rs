//! `Ledger`: what the controller remembers of a volume on a node between its rounds.
//!
//! Corresponds to detachRequestedTime and multiAttachErrorReported of pkg/controller/volume/attachdetach/cache, and to
//! pkg/volume/util/nestedpendingoperations. After a restart the time until a forced detach begins again, and events are
//! recorded once more; nothing else depends on it.

use jiff::Timestamp;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// By volume and node.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<BTreeMap<String, BTreeMap<String, Entry>>>);

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    unwanted_since: Option<Timestamp>,
    reports: Reports,
}

/// The failures that events have reported since the volume is wanted on the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reports {
    /// True if the pods have been told that the volume is attached to another node.
    pub multi_attach: bool,
    /// Reported attempts to attach that failed.
    pub failures: u32,
    pub last_failure: Option<Timestamp>,
}

impl Ledger {
    /// Records that pods want the volume on the node, or that none does. Returns since when none does, and what was
    /// reported.
    pub fn observe(
        &self,
        (volume, node): (&str, &str),
        is_wanted: bool,
        is_attached: bool,
        now: Timestamp,
    ) -> (Option<Timestamp>, Reports) {
        let mut ledger = self.0.lock();
        let entry = ledger.entry(volume.to_owned()).or_default().entry(node.to_owned()).or_default();
        if is_wanted {
            entry.unwanted_since = None;
        } else {
            entry.unwanted_since.get_or_insert(now);
        }
        if !is_wanted || is_attached {
            entry.reports = Reports::default();
        }
        (entry.unwanted_since, entry.reports)
    }

    /// Records that events have reported a failed attempt.
    pub fn failed(&self, volume: &str, node: &str, at: Timestamp) {
        self.update(volume, node, |reports| {
            reports.failures += 1;
            reports.last_failure = Some(at);
        });
    }

    /// Records that events have reported that the volume is attached to another node.
    pub fn refused(&self, volume: &str, node: &str) {
        self.update(volume, node, |reports| reports.multi_attach = true);
    }

    fn update(&self, volume: &str, node: &str, change: impl FnOnce(&mut Reports)) {
        let mut ledger = self.0.lock();
        if let Some(entry) = ledger.get_mut(volume).and_then(|nodes| nodes.get_mut(node)) {
            change(&mut entry.reports);
        }
    }

    /// Forgets the volume on all nodes but those that `is_concerned` names.
    pub fn retain(&self, volume: &str, is_concerned: impl Fn(&str) -> bool) {
        let mut ledger = self.0.lock();
        let Some(nodes) = ledger.get_mut(volume) else { return };
        nodes.retain(|node, _| is_concerned(node));
        if nodes.is_empty() {
            ledger.remove(volume);
        }
    }
}
