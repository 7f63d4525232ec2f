//! Remembers the statuses that an agent has written, so that a lagging cache does not make it take a step twice.
//!
//! Corresponds to pkg/kubelet/status.Manager. It is safe to forget everything: a stored status says enough to go on.
//! The memory adds the fractions of seconds, keeps events from being recorded twice, and lets containers go on while the
//! API server cannot be reached.

use crate::conditions;
use crate::notes::{NodeTermination, Notes, Outage};
use crate::progress::PodEvent;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::kinds::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Most events of one pod that wait for the write of its status.
const MAX_HELD: usize = 200;

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
    /// A later status, which the API server did not take.
    unwritten: Option<PodStatus>,
    /// Events of steps whose status could not be written, with their times. They are recorded together with the status, so
    /// that an agent that restarts before that, and takes the steps again, does not record them twice.
    held: VecDeque<(PodEvent, Timestamp)>,
    notes: Notes,
    /// Occurrences of the events that were recorded.
    recorded: BTreeSet<String>,
}

/// Returns a status with what other components write as it is stored: their conditions, and the names of claims. A node may
/// not change those.
fn with_others_of(mut status: PodStatus, stored: &PodStatus) -> PodStatus {
    status.resource_claim_statuses.clone_from(&stored.resource_claim_statuses);
    status.extended_resource_claim_status.clone_from(&stored.extended_resource_claim_status);
    status.nominated_node_name.clone_from(&stored.nominated_node_name);
    let of_others = stored.conditions.iter().flatten().filter(|condition| !conditions::is_owned(&condition.type_));
    for condition in of_others {
        let present = status.conditions.get_or_insert_default();
        present.retain(|known| known.type_ != condition.type_);
        present.push(condition.clone());
    }
    status
}

/// Returns the resourceVersion as a number. Kubernetes promises since v1.35 that they can be compared so.
fn revision(pod: &Pod) -> u64 {
    pod.resource_version().parse().unwrap_or(0)
}

impl PodMemory {
    /// Returns the latest known status, and whether it is stored and the cache that holds `pod` has caught up with it.
    pub fn status_of(&self, pod: &Pod) -> (PodStatus, bool) {
        let (stored, caught_up) = self.stored_of(pod);
        let memory = self.0.lock();
        let known = memory.get(&pod.key()).filter(|known| known.uid == pod.uid());
        match known.and_then(|known| known.unwritten.clone()) {
            // A pod that another component has ended stays so.
            Some(unwritten) if !conditions::is_terminal(&stored) => (with_others_of(unwritten, &stored), false),
            _ => (stored, caught_up),
        }
    }

    /// Returns the latest status that the API server is known to have, with the fractions of seconds, and whether the
    /// cache that holds `pod` has caught up with the last write.
    pub fn stored_of(&self, pod: &Pod) -> (PodStatus, bool) {
        let cached = pod.status.clone().unwrap_or_default();
        let memory = self.0.lock();
        match memory.get(&pod.key()).filter(|known| known.uid == pod.uid() && known.revision > 0) {
            Some(known) if revision(pod) < known.revision => (known.exact.clone(), false),
            Some(known) if known.stored.as_ref() == Some(&cached) => (known.exact.clone(), true),
            _ => (cached, true),
        }
    }

    /// Remembers a write: `written` is the API server's answer to the write of `exact`. It may have what other components
    /// wrote since.
    pub fn wrote(&self, written: &Pod, exact: PodStatus) {
        let mut memory = self.0.lock();
        let known = Self::entry(&mut memory, written);
        known.revision = revision(written);
        known.stored = written.status.clone();
        known.exact = match &known.stored {
            Some(stored) => with_others_of(exact, stored),
            None => exact,
        };
        known.unwritten = None;
    }

    /// Remembers a status that could not be written. The pod goes on from it, and the next write includes it.
    pub fn keep_unwritten(&self, pod: &Pod, status: PodStatus) {
        Self::entry(&mut self.0.lock(), pod).unwritten = Some(status);
    }

    /// Holds the new events of a step whose status could not be written. Drops the oldest ones of a long time.
    pub fn hold_events(&self, pod: &Pod, new: Vec<PodEvent>, at: Timestamp) {
        let mut memory = self.0.lock();
        let held = &mut Self::entry(&mut memory, pod).held;
        held.extend(new.into_iter().map(|event| (event, at)));
        held.drain(..held.len().saturating_sub(MAX_HELD));
    }

    /// Returns the held events, in the order in which they occurred.
    pub fn take_held(&self, pod: &Pod) -> VecDeque<(PodEvent, Timestamp)> {
        let mut memory = self.0.lock();
        let known = memory.get_mut(&pod.key()).filter(|known| known.uid == pod.uid());
        known.map(|known| std::mem::take(&mut known.held)).unwrap_or_default()
    }

    /// Forgets a status that could not be written, because the API server has it all the same.
    pub fn drop_unwritten(&self, pod: &Pod) {
        if let Some(known) = self.0.lock().get_mut(&pod.key()) {
            known.unwritten = None;
        }
    }

    pub fn notes_of(&self, pod: &Pod) -> Notes {
        let memory = self.0.lock();
        let known = memory.get(&pod.key()).filter(|known| known.uid == pod.uid());
        known.map(|known| known.notes.clone()).unwrap_or_default()
    }

    pub fn set_notes(&self, pod: &Pod, notes: Notes) {
        let mut memory = self.0.lock();
        if notes != Notes::default() || memory.contains_key(&pod.key()) {
            let known = Self::entry(&mut memory, pod);
            // The node may have decided to end the pod since these notes were read.
            let (termination, outage) = (known.notes.termination.take(), known.notes.outage);
            known.notes = notes;
            known.notes.outage = outage.or(known.notes.outage);
            known.notes.termination = known.notes.termination.take().or(termination);
        }
    }

    /// Records that the node ends the pod. The first decision stands.
    pub fn terminate(&self, pod: &Pod, termination: NodeTermination) {
        Self::entry(&mut self.0.lock(), pod).notes.termination.get_or_insert(termination);
    }

    /// Records that the pod's machine had no power.
    pub fn record_outage(&self, pod: &Pod, outage: Outage) {
        Self::entry(&mut self.0.lock(), pod).notes.outage = Some(outage);
    }

    pub fn is_being_terminated(&self, pod: &Pod) -> bool {
        self.0.lock().get(&pod.key()).is_some_and(|known| known.uid == pod.uid() && known.notes.termination.is_some())
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

    /// Returns true while something is remembered of a pod, that is from its first write until it has settled.
    pub fn knows(&self, key: &str) -> bool {
        self.0.lock().contains_key(key)
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
    fn a_pod_goes_on_from_a_status_that_could_not_be_written() {
        let memory = PodMemory::default();
        let stored = pod("u1", "5", "Pending");
        let mut unwritten = pod("u1", "5", "Running").status.unwrap();
        memory.keep_unwritten(&stored, unwritten.clone());
        let base = (stored.status.clone().unwrap(), true);
        assert_eq!(memory.status_of(&stored).0.phase.as_deref(), Some("Running"));
        assert!(!memory.status_of(&stored).1, "it is still to be written");
        assert_eq!(memory.stored_of(&stored), base, "the next write is a patch of this");

        let mut gated = stored.clone();
        gated.status.as_mut().unwrap().conditions = serde_json::from_value(json!([
            {"type": "example.com/gate", "status": "True"}, {"type": "Ready", "status": "False"},
        ]))
        .unwrap();
        let types = |status: PodStatus| status.conditions.into_iter().flatten().map(|c| c.type_).collect::<Vec<_>>();
        assert_eq!(types(memory.status_of(&gated).0), ["example.com/gate"], "Ready is the agent's own");
        let mut named = stored.clone();
        let claims = serde_json::from_value(json!([{"name": "gpu", "resourceClaimName": "gpu-x7k2p"}])).unwrap();
        named.status.as_mut().unwrap().resource_claim_statuses = claims;
        let names = |status: PodStatus| status.resource_claim_statuses.into_iter().flatten().count();
        assert_eq!(names(memory.status_of(&named).0), 1, "a node may not change the names of claims");
        let written = PodMemory::default();
        written.wrote(&named, PodStatus::default());
        assert_eq!(names(written.status_of(&named).0), 1, "they were written before the node's status was");

        let failed = pod("u1", "6", "Failed");
        assert_eq!(memory.status_of(&failed).0.phase.as_deref(), Some("Failed"), "another component has ended it");
        let other = pod("u2", "7", "Pending");
        assert_eq!(memory.status_of(&other).0.phase.as_deref(), Some("Pending"), "another pod of the same name");

        unwritten.phase = Some("Succeeded".to_owned());
        memory.wrote(&pod("u1", "8", "Succeeded"), unwritten.clone());
        assert_eq!(memory.status_of(&stored), (unwritten, false), "written, and the cache lags");
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

    #[test]
    fn events_wait_for_their_status_and_the_oldest_go_first() {
        let memory = PodMemory::default();
        let event = |occurrence: usize| PodEvent::of_pod(true, "Unhealthy", occurrence.to_string());
        let (web, at) = (pod("u1", "1", ""), Timestamp::UNIX_EPOCH);
        memory.hold_events(&web, vec![event(1), event(2)], at);
        memory.hold_events(&web, vec![event(3)], at);
        let taken = |pod: &Pod| memory.take_held(pod).into_iter().map(|(event, _)| event.message).collect::<Vec<_>>();
        assert_eq!(taken(&pod("u2", "2", "")), [""; 0], "another pod of the same name");
        assert_eq!(taken(&web), ["1", "2", "3"]);
        assert_eq!(taken(&web), [""; 0]);
        (0..500).for_each(|n| memory.hold_events(&web, vec![event(n + 10)], at));
        assert_eq!((taken(&web).first().map(String::as_str), MAX_HELD), (Some("310"), 200));
    }
}
