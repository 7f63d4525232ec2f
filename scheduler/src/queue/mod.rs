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
/// A pod that no event has helped is tried again after this time all the same: hints may be wrong.
const MAX_IN_UNSCHEDULABLE: Duration = Duration::from_secs(300);

/// A pod in the queue, with its history.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    pub info: Arc<PodInfo>,
    /// When it entered the part of the queue that it is in.
    pub since: Instant,
    /// Cycles that ended without a node.
    pub attempts: u32,
    pub first_attempt: Option<Instant>,
    /// Who rejected it in the last one.
    pub rejected_by: BTreeSet<&'static str>,
}

impl QueuedPod {
    fn new(info: Arc<PodInfo>, now: Instant) -> Self {
        Self { info, since: now, attempts: 0, first_attempt: None, rejected_by: BTreeSet::new() }
    }

    fn back_off(&self) -> Duration {
        if self.attempts == 0 {
            return Duration::ZERO;
        }
        (INITIAL_BACK_OFF * 2_u32.pow((self.attempts - 1).min(5))).min(MAX_BACK_OFF)
    }

    fn backs_off_until(&self) -> Instant {
        self.since + self.back_off()
    }
}

/// The order of the active queue: rank by the QueueSort plugin, then time, then arrival.
type ActiveKey = (i64, Instant, u64);

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Active(ActiveKey),
    Backoff(Instant, u64),
    /// Since then.
    Unschedulable(Instant),
    /// Held back before it could be tried at all.
    Gated,
}

pub struct SchedulingQueue {
    profile: Arc<Profile>,
    active: BTreeMap<ActiveKey, String>,
    backoff: BTreeSet<(Instant, u64, String)>,
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
    pub fn new(profile: Arc<Profile>) -> Self {
        Self {
            profile,
            active: BTreeMap::new(),
            backoff: BTreeSet::new(),
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
        self.activate(QueuedPod::new(info, now), now);
    }

    /// A waiting pod has changed. The cycle of one that is in flight ends as if it had just done so.
    pub fn update(&mut self, old: Arc<PodInfo>, info: Arc<PodInfo>, now: Instant) {
        let event = ClusterEvent::PodUpdated { old, new: info.clone() };
        let Some((queued, place)) = self.take(info.uid()) else {
            if self.in_flight.contains_key(info.uid()) {
                self.recent.insert(self.events, event);
                self.events += 1;
            } else {
                self.add(info, now);
            }
            return;
        };
        self.nominated.set(info.clone(), info.nominated_node_name());
        let helped = self.profile.is_helped_by(&queued.rejected_by, &info, &event);
        let queued = QueuedPod { info, ..queued };
        match place {
            Place::Gated => self.activate(queued, now),
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
        let (_, uid) = self.active.pop_first()?;
        let (mut queued, _) = self.pods.remove(&uid).expect("an active pod is in the table");
        queued.first_attempt.get_or_insert(now);
        self.in_flight.insert(uid, self.events);
        Some(queued)
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
        queued.attempts += 1;
        queued.since = now;
        queued.rejected_by = rejected_by;
        // What has happened while it was in flight counts as if it happened now.
        let (by, info) = (&queued.rejected_by, &queued.info);
        let mut since = self.recent.range(taken_at..).map(|(_, event)| event).filter(|event| event.concerns(info));
        let helped = by.is_empty() || since.any(|event| self.profile.is_helped_by(by, info, event));
        self.done(&uid);
        if self.pods.contains_key(&uid) {
            return; // it has been added again meanwhile
        }
        if helped {
            let until = queued.backs_off_until();
            self.put_in_backoff(queued, until);
        } else {
            self.put(queued, Place::Unschedulable(now));
        }
    }

    /// Something has happened: pods that it may help are tried again.
    pub fn on_event(&mut self, event: &ClusterEvent, now: Instant) {
        if !self.in_flight.is_empty() {
            self.recent.insert(self.events, event.clone());
        }
        self.events += 1;
        let waiting = self.unschedulable.iter().map(|(_, uid)| uid);
        let helped = waiting.filter(|uid| {
            let (queued, _) = &self.pods[*uid];
            self.profile.is_helped_by(&queued.rejected_by, &queued.info, event)
        });
        let helped: Vec<String> = helped.cloned().collect();
        for uid in helped {
            if let Some((queued, _)) = self.take(&uid) {
                self.requeue(queued, now);
            }
        }
    }

    /// When the queue should be looked at again although nothing happens.
    pub fn next_due(&self) -> Option<Instant> {
        let backoff = self.backoff.first().map(|(until, ..)| *until);
        let unschedulable = self.unschedulable.first().map(|(since, _)| *since + MAX_IN_UNSCHEDULABLE);
        [backoff, unschedulable].into_iter().flatten().min()
    }

    /// Pods in the active, back-off and unschedulable queue and behind gates.
    pub fn lengths(&self) -> [usize; 4] {
        let [active, backoff, unschedulable] = [self.active.len(), self.backoff.len(), self.unschedulable.len()];
        [active, backoff, unschedulable, self.pods.len() - active - backoff - unschedulable]
    }

    /// The pod as the queue knows it.
    pub fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid).map(|(queued, _)| &queued.info)
    }

    fn flush(&mut self, now: Instant) {
        while let Some((until, _, uid)) = self.backoff.first().cloned() {
            if until > now {
                break;
            }
            if let Some((queued, _)) = self.take(&uid) {
                self.activate(queued, now);
            }
        }
        while let Some((since, uid)) = self.unschedulable.first().cloned() {
            if now < since + MAX_IN_UNSCHEDULABLE {
                break;
            }
            if let Some((queued, _)) = self.take(&uid) {
                self.activate(queued, now);
            }
        }
    }

    /// To the active queue, or first through what is left of its back-off.
    fn requeue(&mut self, queued: QueuedPod, now: Instant) {
        let until = queued.backs_off_until();
        if until > now { self.put_in_backoff(queued, until) } else { self.activate(queued, now) }
    }

    /// To the active queue, unless a PreEnqueue plugin holds the pod back.
    fn activate(&mut self, mut queued: QueuedPod, now: Instant) {
        queued.since = now;
        if let Err(rejection) = self.profile.run_pre_enqueue(&queued.info) {
            queued.rejected_by.insert(rejection.plugin);
            return self.put(queued, Place::Gated);
        }
        let rank = self.profile.queue_sort.as_ref().map_or(0, |sort| sort.rank(&queued.info));
        self.arrivals += 1;
        let place = Place::Active((rank, now, self.arrivals));
        self.put(queued, place);
    }

    fn put_in_backoff(&mut self, queued: QueuedPod, until: Instant) {
        self.arrivals += 1;
        let place = Place::Backoff(until, self.arrivals);
        self.put(queued, place);
    }

    fn put(&mut self, queued: QueuedPod, place: Place) {
        let uid = queued.info.uid().to_owned();
        match place {
            Place::Active(key) => drop(self.active.insert(key, uid.clone())),
            Place::Backoff(until, arrival) => drop(self.backoff.insert((until, arrival, uid.clone()))),
            Place::Unschedulable(since) => drop(self.unschedulable.insert((since, uid.clone()))),
            Place::Gated => {}
        }
        self.pods.insert(uid, (queued, place));
    }

    fn take(&mut self, uid: &str) -> Option<(QueuedPod, Place)> {
        let (queued, place) = self.pods.remove(uid)?;
        match place {
            Place::Active(key) => drop(self.active.remove(&key)),
            Place::Backoff(until, arrival) => drop(self.backoff.remove(&(until, arrival, uid.to_owned()))),
            Place::Unschedulable(since) => drop(self.unschedulable.remove(&(since, uid.to_owned()))),
            Place::Gated => {}
        }
        Some((queued, place))
    }
}

#[cfg(test)]
mod tests;
