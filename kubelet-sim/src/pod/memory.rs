//! Remembers the statuses that an agent has written, so that a lagging cache does not make it take a step twice.
//!
//! Corresponds to pkg/kubelet/status.Manager. It is safe to forget everything: a stored status says enough to go on.
//! The memory adds the fractions of seconds, and keeps events from being recorded twice.

use crate::pod::notes::Notes;
use crate::pod::progress::PodEvent;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use std::collections::{BTreeMap, BTreeSet};

/// The remembered writes of all pods, by `namespace/name`.
#[derive(Debug, Default)]
pub struct PodMemory(Mutex<BTreeMap<String, Remembered>>);

/// What is remembered of one pod.
#[derive(Debug, Default)]
struct Remembered {
    uid: String,
    /// The resourceVersion of the last write; 0 before the first.
    revision: u64,
    /// The status with fractions of seconds, which the API server does not store.
    exact: PodStatus,
    /// The status as the API server stores it.
    stored: Option<PodStatus>,
    notes: Notes,
    /// Occurrences of the events that were recorded.
    recorded: BTreeSet<String>,
}

/// Returns the resourceVersion as a number. Kubernetes promises since v1.35 that they can be compared so.
fn revision(pod: &Pod) -> u64 {
    pod.resource_version().parse().unwrap_or(0)
}

impl PodMemory {
    /// Returns the latest known status, and whether the cache that holds `pod` has caught up with the last write.
    pub fn status_of(&self, pod: &Pod) -> (PodStatus, bool) {
        let cached = pod.status.clone().unwrap_or_default();
        let memory = self.0.lock();
        match memory.get(&pod.key()).filter(|known| known.uid == pod.uid() && known.revision > 0) {
            Some(known) if revision(pod) < known.revision => (known.exact.clone(), false),
            Some(known) if known.stored.as_ref() == Some(&cached) => (known.exact.clone(), true),
            _ => (cached, true),
        }
    }

    /// Remembers a write: `written` is the API server's answer to the write of `exact`.
    pub fn wrote(&self, written: &Pod, exact: PodStatus) {
        let mut memory = self.0.lock();
        let known = Self::entry(&mut memory, written);
        known.revision = revision(written);
        known.stored = written.status.clone();
        known.exact = exact;
    }

    pub fn notes_of(&self, pod: &Pod) -> Notes {
        let memory = self.0.lock();
        let known = memory.get(&pod.key()).filter(|known| known.uid == pod.uid());
        known.map(|known| known.notes.clone()).unwrap_or_default()
    }

    pub fn set_notes(&self, pod: &Pod, notes: Notes) {
        let mut memory = self.0.lock();
        if notes != Notes::default() || memory.contains_key(&pod.key()) {
            Self::entry(&mut memory, pod).notes = notes;
        }
    }

    /// Returns the events that were not recorded before, and remembers them.
    pub fn unrecorded(&self, pod: &Pod, events: Vec<PodEvent>) -> Vec<PodEvent> {
        if events.is_empty() {
            return events;
        }
        let mut memory = self.0.lock();
        let known = Self::entry(&mut memory, pod);
        events.into_iter().filter(|event| known.recorded.insert(event.occurrence.clone())).collect()
    }

    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }

    fn entry<'a>(memory: &'a mut BTreeMap<String, Remembered>, pod: &Pod) -> &'a mut Remembered {
        let known = memory.entry(pod.key()).or_default();
        if known.uid != pod.uid() {
            *known = Remembered { uid: pod.uid().to_owned(), ..Remembered::default() };
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::kinds::jiff::Timestamp;
    use proto::kinds::metav1::Time;
    use serde_json::json;

    fn pod(uid: &str, revision: &str, phase: &str) -> Pod {
        let start = "2026-01-01T00:00:00Z";
        Pod::decode_value(json!({
            "metadata": {"namespace": "shop", "name": "web", "uid": uid, "resourceVersion": revision},
            "status": {"phase": phase, "startTime": start},
        }))
        .unwrap()
    }

    #[test]
    fn a_lagging_cache_does_not_bring_back_the_past() {
        let memory = PodMemory::default();
        let before = pod("u1", "5", "Pending");
        assert_eq!(memory.status_of(&before), (before.status.clone().unwrap(), true));

        let written = pod("u1", "6", "Running");
        let mut exact = written.status.clone().unwrap();
        exact.start_time = Some(Time("2026-01-01T00:00:00.25Z".parse::<Timestamp>().unwrap()));
        memory.wrote(&written, exact.clone());
        assert_eq!(memory.status_of(&before), (exact.clone(), false), "the cache lags");
        assert_eq!(memory.status_of(&written), (exact.clone(), true), "caught up; fractions are kept");
        assert_eq!(memory.status_of(&pod("u1", "7", "Running")), (exact, true), "somebody changed a label");
        let other = pod("u1", "8", "Failed");
        assert_eq!(memory.status_of(&other), (other.status.clone().unwrap(), true), "somebody changed the status");
        let next = pod("u2", "3", "Pending");
        assert_eq!(memory.status_of(&next), (next.status.clone().unwrap(), true), "another pod of the same name");
    }

    #[test]
    fn events_are_told_once_for_each_pod() {
        let memory = PodMemory::default();
        let event = |occurrence: &str| PodEvent {
            warning: false,
            reason: "Started".to_owned(),
            message: String::new(),
            field_path: String::new(),
            occurrence: occurrence.to_owned(),
        };
        assert_eq!(memory.unrecorded(&pod("u1", "1", ""), vec![event("a"), event("b")]).len(), 2);
        assert_eq!(memory.unrecorded(&pod("u1", "1", ""), vec![event("a"), event("c")]), vec![event("c")]);
        assert_eq!(memory.unrecorded(&pod("u2", "2", ""), vec![event("a")]).len(), 1);
    }
}
