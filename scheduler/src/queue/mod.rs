//! The scheduling queue: who is next, who waits out a failure, and who waits for the world to change.
//!
//! Corresponds to pkg/scheduler/backend/queue. Pure: the present time is handed in; `waiting` makes it asynchronous.
//!
//! ```text
//!            add                    pop
//! gated ──────────▶ active ─────────────────▶ in flight ──▶ bound
//!                     ▲                          │
//!      back-off over  │                          │ rejected
//!                  backoff ◀── an event helps ── unschedulable
//! ```
//!
//! Back-off keeps those who failed behind those who did not: when nobody else is active, a pod in back-off is taken
//! early. Only after an error, which a quick repetition may well meet again, is the time waited out.

pub mod waiting;

use crate::framework::{ClusterEvent, Nominated, Profile};
use crate::pod_info::PodInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a pod waits after its first failure; doubled by each further one.
const INITIAL_BACK_OFF: Duration = Duration::from_secs(1);
const MAX_BACK_OFF: Duration = Duration::from_secs(10);
/// Back-offs that end in the same second end together, so that the more important pod goes first.
const BACK_OFF_WINDOW_S: u64 = 1;
/// A pod that no event has helped is tried again after this time all the same: hints may be wrong.
const MAX_IN_UNSCHEDULABLE: Duration = Duration::from_secs(300);

/// A pod in the queue, with its history.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    pub info: Arc<PodInfo>,
    /// When it was added, or last came back from a cycle.
    pub since: Instant,
    /// Cycles that it has been through, or is in.
    pub attempts: u32,
    /// Cycles that ended because plugins rejected it.
    rejections: u32,
    /// Cycles that ended with an error, since the last that did not.
    errors: u32,
    pub first_attempt: Option<Instant>,
    /// Who rejected it in the last one; empty after an error.
    pub rejected_by: BTreeSet<&'static str>,
}

impl QueuedPod {
    fn new(info: Arc<PodInfo>, now: Instant) -> Self {
        let (attempts, rejections, errors) = (0, 0, 0);
        Self { info, since: now, attempts, rejections, errors, first_attempt: None, rejected_by: BTreeSet::new() }
    }

    /// When its back-off ends; `None` for a pod that has not failed yet.
    fn backs_off_until(&self) -> Option<Instant> {
        let failures = if self.errors > 0 { self.errors } else { self.rejections };
        let doublings = failures.checked_sub(1)?.min(4);
        Some(self.since + (INITIAL_BACK_OFF * 2_u32.pow(doublings)).min(MAX_BACK_OFF))
    }
}

/// The order of the active queue: rank by the QueueSort plugin, then time, then arrival.
type ActiveKey = (i64, Instant, u64);
/// The order of a back-off queue: the second in which back-off ends, then that of the active queue.
type BackoffKey = (u64, ActiveKey);

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Active(ActiveKey),
    Backoff(BackoffKey),
    /// In back-off after an error.
    ErrorBackoff(BackoffKey),
    /// Since then.
    Unschedulable(Instant),
    /// Held back before it could be tried at all.
    Gated,
}

pub struct SchedulingQueue {
    profile: Arc<Profile>,
    /// From here back-off windows are counted.
    epoch: Instant,
    active: BTreeMap<ActiveKey, String>,
    backoff: BTreeMap<BackoffKey, String>,
    error_backoff: BTreeMap<BackoffKey, String>,
    unschedulable: BTreeSet<(Instant, String)>,
    /// Every pod that waits, by uid.
    pods: BTreeMap<String, (QueuedPod, Place)>,
    /// Pods in a scheduling or binding cycle, by uid: the number of events before they were taken.
    in_flight: BTreeMap<String, u64>,
    /// Events since the oldest of them was taken, which may have made its failure obsolete before it happens.
    recent: BTreeMap<u64, ClusterEvent>,
    events: u64,
    arrivals: u64,
    pub nominated: Nominated,
}

impl SchedulingQueue {
    pub fn new(profile: Arc<Profile>, now: Instant) -> Self {
        Self {
            profile,
            epoch: now,
            active: BTreeMap::new(),
            backoff: BTreeMap::new(),
            error_backoff: BTreeMap::new(),
            unschedulable: BTreeSet::new(),
            pods: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            recent: BTreeMap::new(),
            events: 0,
            arrivals: 0,
            nominated: Nominated::default(),
        }
    }

    /// A pod that needs a node has appeared.
    pub fn add(&mut self, info: Arc<PodInfo>, now: Instant) {
        self.remove(info.uid());
        self.nominated.set(info.clone(), info.nominated_node_name());
        self.activate(QueuedPod::new(info, now));
    }

    /// A waiting pod has changed. The cycle of one that is in flight ends as if it had just done so.
    pub fn update(&mut self, old: Arc<PodInfo>, info: Arc<PodInfo>, now: Instant) {
        let event = ClusterEvent::PodUpdated { old: old.clone(), new: info.clone() };
        if self.in_flight.contains_key(info.uid()) {
            return self.note(event);
        }
        let Some((queued, place)) = self.take(info.uid()) else { return self.add(info, now) };
        self.nominated.update(&old, info.clone());
        let helped = self.profile.is_helped_by(&queued.rejected_by, &info, &event);
        let queued = QueuedPod { info, ..queued };
        match place {
            Place::Gated => self.activate(queued),
            Place::Unschedulable(_) if helped => self.requeue(queued, now),
            place => self.put(queued, place),
        }
    }

    /// The pod is gone, or bound.
    pub fn remove(&mut self, uid: &str) {
        self.nominated.remove(uid);
        self.take(uid);
    }

    /// The next pod to schedule. Until `done` it is in flight.
    pub fn pop(&mut self, now: Instant) -> Option<QueuedPod> {
        self.flush(now);
        loop {
            let uid = self.active.values().next().or_else(|| self.backoff.values().next())?.clone();
            let (mut queued, _) = self.take(&uid)?;
            if self.in_flight.contains_key(&uid) {
                continue; // it was added again during its cycle, which goes on
            }
            queued.attempts += 1;
            queued.first_attempt.get_or_insert(now);
            self.in_flight.insert(uid, self.events);
            return Some(queued);
        }
    }

    /// The pod's cycle is over, with or without success.
    pub fn done(&mut self, uid: &str) {
        self.in_flight.remove(uid);
        let oldest = self.in_flight.values().min().copied().unwrap_or(self.events);
        self.recent = self.recent.split_off(&oldest);
    }

    /// Gives back a pod that found no node. `rejected_by` is empty after an error that had no plugin to blame.
    pub fn add_unschedulable(&mut self, mut queued: QueuedPod, rejected_by: BTreeSet<&'static str>, now: Instant) {
        let uid = queued.info.uid().to_owned();
        let Some(taken_at) = self.in_flight.get(&uid).copied() else { return };
        match rejected_by.is_empty() {
            true => queued.errors += 1,
            false => (queued.rejections, queued.errors) = (queued.rejections + 1, 0),
        }
        queued.since = now;
        queued.rejected_by = rejected_by;
        // What has happened while it was in flight counts as if it happened now.
        let (by, info) = (&queued.rejected_by, &queued.info);
        let mut since = self.recent.range(taken_at..).map(|(_, event)| event);
        let helped = by.is_empty() || since.any(|event| self.profile.is_helped_by(by, info, event));
        self.done(&uid);
        if self.pods.contains_key(&uid) {
            return; // it has been added again meanwhile
        }
        if helped { self.requeue(queued, now) } else { self.put(queued, Place::Unschedulable(now)) }
    }

    /// Something has happened: pods that it may help are tried again.
    pub fn on_event(&mut self, event: &ClusterEvent, now: Instant) {
        self.on_event_for(event, now, |_| true);
    }

    /// The same for some of the pods.
    pub fn on_event_for(&mut self, event: &ClusterEvent, now: Instant, concerns: impl Fn(&PodInfo) -> bool) {
        let helps = |uid: &&String| {
            let (queued, _) = &self.pods[*uid];
            concerns(&queued.info) && self.profile.is_helped_by(&queued.rejected_by, &queued.info, event)
        };
        let helped: Vec<String> = self.unschedulable.iter().map(|(_, uid)| uid).filter(helps).cloned().collect();
        for uid in helped {
            if let Some((queued, _)) = self.take(&uid) {
                self.requeue(queued, now);
            }
        }
        self.note(event.clone());
    }

    /// Tries a pod again at once, whatever it waits for.
    pub fn force(&mut self, uid: &str) {
        match self.take(uid) {
            Some((queued, _)) => self.activate(queued),
            None if self.in_flight.contains_key(uid) => self.note(ClusterEvent::Forced { uid: uid.to_owned() }),
            None => {}
        }
    }

    /// When the queue should be looked at again although nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let window_end = |window: u64| self.epoch + Duration::from_secs((window + 1) * BACK_OFF_WINDOW_S);
        let error = self.error_backoff.first_key_value().map(|((window, _), _)| window_end(*window));
        let unschedulable = self.unschedulable.first().map(|(since, _)| *since + MAX_IN_UNSCHEDULABLE);
        [error, unschedulable].into_iter().flatten().min()
    }

    /// Pods in the active, back-off and unschedulable queue and behind gates.
    pub fn lengths(&self) -> [usize; 4] {
        let backoff = self.backoff.len() + self.error_backoff.len();
        let [active, unschedulable] = [self.active.len(), self.unschedulable.len()];
        [active, backoff, unschedulable, self.pods.len() - active - backoff - unschedulable]
    }

    /// The pod as the queue knows it.
    pub fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid).map(|(queued, _)| &queued.info)
    }

    /// Keeps an event for the pods in flight.
    fn note(&mut self, event: ClusterEvent) {
        if !self.in_flight.is_empty() {
            self.recent.insert(self.events, event);
        }
        self.events += 1;
    }

    fn window(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_secs() / BACK_OFF_WINDOW_S
    }

    fn flush(&mut self, now: Instant) {
        let present = self.window(now);
        let over = |queue: &BTreeMap<BackoffKey, String>| {
            queue.first_key_value().filter(|((window, _), _)| *window < present).map(|(_, uid)| uid.clone())
        };
        while let Some(uid) = over(&self.backoff).or_else(|| over(&self.error_backoff)) {
            if let Some((queued, _)) = self.take(&uid) {
                self.put_in_active(queued);
            }
        }
        while let Some((since, uid)) = self.unschedulable.first().cloned() {
            if now < since + MAX_IN_UNSCHEDULABLE {
                break;
            }
            if let Some((queued, _)) = self.take(&uid) {
                self.activate(queued);
            }
        }
    }

    /// To the active queue, or first through what is left of its back-off.
    fn requeue(&mut self, queued: QueuedPod, now: Instant) {
        let until = queued.backs_off_until().map(|until| self.window(until));
        match until.filter(|window| *window >= self.window(now)) {
            Some(window) => self.put_in_backoff(queued, window),
            None => self.activate(queued),
        }
    }

    /// To the active queue, unless a PreEnqueue plugin holds the pod back.
    fn activate(&mut self, queued: QueuedPod) {
        if let Some(queued) = self.let_in(queued) {
            self.put_in_active(queued);
        }
    }

    /// The pod, if no PreEnqueue plugin holds it back.
    fn let_in(&mut self, mut queued: QueuedPod) -> Option<QueuedPod> {
        let Err(rejection) = self.profile.run_pre_enqueue(&queued.info) else { return Some(queued) };
        queued.rejected_by.insert(rejection.plugin);
        self.put(queued, Place::Gated);
        None
    }

    fn active_key(&mut self, queued: &QueuedPod) -> ActiveKey {
        self.arrivals += 1;
        let rank = self.profile.queue_sort.as_ref().map_or(0, |sort| sort.rank(&queued.info));
        (rank, queued.since, self.arrivals)
    }

    fn put_in_active(&mut self, queued: QueuedPod) {
        let key = self.active_key(&queued);
        self.put(queued, Place::Active(key));
    }

    fn put_in_backoff(&mut self, queued: QueuedPod, window: u64) {
        let Some(queued) = self.let_in(queued) else { return };
        let key = (window, self.active_key(&queued));
        let place = if queued.rejected_by.is_empty() { Place::ErrorBackoff(key) } else { Place::Backoff(key) };
        self.put(queued, place);
    }

    fn put(&mut self, queued: QueuedPod, place: Place) {
        let uid = queued.info.uid().to_owned();
        match place {
            Place::Active(key) => drop(self.active.insert(key, uid.clone())),
            Place::Backoff(key) => drop(self.backoff.insert(key, uid.clone())),
            Place::ErrorBackoff(key) => drop(self.error_backoff.insert(key, uid.clone())),
            Place::Unschedulable(since) => drop(self.unschedulable.insert((since, uid.clone()))),
            Place::Gated => {}
        }
        self.pods.insert(uid, (queued, place));
    }

    fn take(&mut self, uid: &str) -> Option<(QueuedPod, Place)> {
        let (queued, place) = self.pods.remove(uid)?;
        match place {
            Place::Active(key) => drop(self.active.remove(&key)),
            Place::Backoff(key) => drop(self.backoff.remove(&key)),
            Place::ErrorBackoff(key) => drop(self.error_backoff.remove(&key)),
            Place::Unschedulable(since) => drop(self.unschedulable.remove(&(since, uid.to_owned()))),
            Place::Gated => {}
        }
        Some((queued, place))
    }
}

#[cfg(test)]
mod tests;
