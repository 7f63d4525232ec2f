//! The scheduling queue: pods that are ready, pods in back-off, and unschedulable pods that wait for an event.
//!
//! Corresponds to pkg/scheduler/backend/queue. Pure: callers pass the present time; `shared` makes it asynchronous.
//!
//! ```text
//!            add                    pop
//! gated ──────────▶ active ─────────────────▶ in flight ──▶ bound
//!                     ▲                          │
//!      back-off over  │                          │ rejected
//!                  backoff ◀── an event helps ── unschedulable
//! ```
//!
//! Back-off puts pods that failed behind those that did not. If no pod is active, a pod in back-off is taken early.
//! After an error the back-off is always completed, because a quick retry would probably meet the same error.

pub mod history;
mod order;
mod sorted_pods;
pub mod preempting;
pub mod held;
pub mod shared;

use crate::metrics::queue::QueueMetrics;
use history::Trail;
use indexmap::IndexMap;
use order::Order;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::rejection::code;
use scheduling_framework::{ClusterEvent, Nominated, Profiles, QueuedPodInfo};
use sorted_pods::SortedPods;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Back-offs that end in the same window end together, so that the pod of higher priority goes first.
const BACK_OFF_WINDOW_S: u64 = 1;
/// Time after which an unschedulable pod is tried again without an event, because queueing hints may be wrong.
const MAX_IN_UNSCHEDULABLE: Duration = Duration::from_secs(300);

/// A pod in the queue, with its history.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    pub info: Arc<PodInfo>,
    /// Time at which the pod was added, or last returned from a cycle.
    pub since: Instant,
    /// Number of cycles, including the present one.
    pub attempts: u32,
    /// Number of cycles in which plugins rejected the pod.
    rejections: u32,
    /// Number of consecutive cycles that ended with an error.
    errors: u32,
    pub first_attempt: Option<Instant>,
    /// True if no event has woken the pod since its last attempt, but the time limit of unschedulable pods.
    pub was_flushed: bool,
    /// Plugins that rejected the pod in its last cycle; empty after an error.
    pub rejected_by: BTreeSet<&'static str>,
    /// Time since which PreEnqueue holds the pod.
    held_since: Option<Instant>,
    /// The event that causes the next move.
    event: &'static str,
    /// The moves since the last attempt.
    pub trail: Trail,
}

impl QueuedPod {
    fn new(info: Arc<PodInfo>, now: Instant) -> Self {
        let (attempts, rejections, errors) = (0, 0, 0);
        Self {
            info,
            since: now,
            attempts,
            rejections,
            errors,
            first_attempt: None,
            was_flushed: false,
            rejected_by: BTreeSet::new(),
            held_since: None,
            event: history::POD_ADDED,
            trail: Trail::default(),
        }
    }

    fn after(self, event: &'static str) -> Self {
        Self { event, ..self }
    }

    /// Returns the end of the back-off; `None` for a pod that has not failed yet.
    fn backoff_end(&self, profiles: &Profiles) -> Option<Instant> {
        let failures = if self.errors > 0 { self.errors } else { self.rejections };
        let doublings = failures.checked_sub(1)?.min(31);
        Some(self.since + profiles.initial_backoff.saturating_mul(2_u32.pow(doublings)).min(profiles.max_backoff))
    }

    /// Returns what a QueueSort plugin may compare.
    fn to_compare(&self) -> QueuedPodInfo {
        QueuedPodInfo {
            pod_info: self.info.clone(),
            timestamp: self.since,
            attempts: self.attempts,
            initial_attempt_timestamp: self.first_attempt,
        }
    }
}

/// The pods of a back-off queue: by the window in which back-off ends, then in the order of the active queue.
type BackoffQueue = BTreeMap<u64, SortedPods>;
/// The place in a back-off queue: the window, and the number of the arrival.
type BackoffKey = (u64, u64);

/// The part of the queue that holds a pod, and its place there.
#[derive(Clone, Copy, Debug, PartialEq)]
enum QueuePosition {
    /// With the number of the arrival.
    Active(u64),
    Backoff(BackoffKey),
    /// Back-off after an error.
    ErrorBackoff(BackoffKey),
    /// Unschedulable since that time; the number of the arrival orders pods of one time.
    Unschedulable((Instant, u64)),
    /// Rejected by a PreEnqueue plugin; with the number of the arrival.
    Gated(u64),
}

pub struct SchedulingQueue {
    profiles: Arc<Profiles>,
    /// Beginning of the first back-off window.
    epoch: Instant,
    order: Order,
    active: SortedPods,
    backoff: BackoffQueue,
    error_backoff: BackoffQueue,
    unschedulable: BTreeMap<(Instant, u64), String>,
    /// Pods that a PreEnqueue plugin rejects.
    gated: BTreeMap<u64, String>,
    /// Every pod in the queue, by uid.
    pods: BTreeMap<String, (QueuedPod, QueuePosition)>,
    /// Pods in a scheduling or binding cycle, by uid, with the number of events before the cycle began.
    in_flight: IndexMap<String, u64, BuildHasherDefault<DefaultHasher>>,
    /// Events since the oldest of those cycles began. They may help a pod whose cycle fails later.
    recent: BTreeMap<u64, ClusterEvent>,
    events: u64,
    arrivals: u64,
    pub nominated: Nominated,
    /// Pods and PodGroups whose victims are being evicted, with the uid of the last victim when the others are done.
    preempting: BTreeMap<String, Option<String>>,
    /// `None` measures nothing.
    metrics: Option<QueueMetrics>,
    /// The time of the last call, for trails. `shared` sets it.
    present: Instant,
    /// Number of pods that entered each part of the queue, by event.
    incoming: BTreeMap<(&'static str, &'static str), u64>,
}

impl SchedulingQueue {
    pub fn new(profiles: Arc<Profiles>, now: Instant) -> Self {
        Self {
            order: Order::new(profiles.queue_sort().cloned()),
            profiles,
            epoch: now,
            active: SortedPods::default(),
            backoff: BTreeMap::new(),
            error_backoff: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
            gated: BTreeMap::new(),
            pods: BTreeMap::new(),
            in_flight: IndexMap::default(),
            recent: BTreeMap::new(),
            events: 0,
            arrivals: 0,
            nominated: Nominated::default(),
            preempting: BTreeMap::new(),
            metrics: None,
            present: now,
            incoming: BTreeMap::new(),
        }
    }

    /// Measures plugins from now on.
    pub fn measure(&mut self, metrics: QueueMetrics) {
        self.metrics = Some(metrics);
    }

    /// Returns true if the event may make a pod schedulable that these plugins have rejected.
    fn may_fit(&self, rejected_by: &BTreeSet<&'static str>, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let Some(profile) = self.profiles.of(&pod.pod) else { return false };
        let metrics = self.metrics.as_ref().filter(|metrics| metrics.samples_hints());
        profile.may_become_schedulable(rejected_by, pod, event, |plugin| match metrics {
            Some(metrics) => metrics.hint(plugin.name(), event.label(), || plugin.may_become_schedulable(pod, event)),
            None => plugin.may_become_schedulable(pod, event),
        })
    }

    /// Adds a new pod that needs a node.
    pub fn add(&mut self, info: Arc<PodInfo>, now: Instant) {
        self.remove(info.uid());
        self.nominated.set(info.clone(), info.nominated_node_name());
        self.activate(QueuedPod::new(info, now));
    }

    /// Updates a pod. If it is in flight, the event counts at the end of its cycle.
    pub fn update(&mut self, old: Arc<PodInfo>, info: Arc<PodInfo>, now: Instant) {
        let event = ClusterEvent::PodUpdated { old: old.clone(), new: info.clone() };
        if self.in_flight.contains_key(info.uid()) {
            return self.record_event(event);
        }
        let Some((queued, position)) = self.take(info.uid()) else { return self.add(info, now) };
        self.nominated.update(&old, info.clone());
        let may_fit = self.may_fit(&queued.rejected_by, &info, &event);
        let queued = QueuedPod { info, ..queued }.after(history::POD_UPDATED);
        match position {
            QueuePosition::Gated(_) => self.activate(queued),
            QueuePosition::Unschedulable(_) if may_fit => self.requeue(queued, now),
            position => self.put_back(queued, position),
        }
    }

    /// Removes a pod that was deleted or bound.
    pub fn remove(&mut self, uid: &str) {
        self.nominated.remove(uid);
        self.take(uid);
    }

    /// Returns the next pod to schedule. It is in flight until `done`.
    pub fn pop(&mut self, now: Instant) -> Option<QueuedPod> {
        self.flush(now);
        loop {
            let in_backoff = || self.backoff.values().next().and_then(SortedPods::first);
            let uid = self.active.first().or_else(in_backoff)?.to_owned();
            let (mut queued, position) = self.take(&uid)?;
            if self.in_flight.contains_key(&uid) {
                continue; // the pod was added again during its cycle
            }
            if position.label() == "backoff" {
                self.record_move(&mut queued, "active", history::POPPED_FROM_BACKOFF);
            }
            return Some(self.begin_cycle(queued, now));
        }
    }

    /// Takes this pod for a cycle, whatever its back-off, unless a PreEnqueue plugin holds it now: a pod that was gated may
    /// not be any more, although the event that tells it is still to come. It is in flight until `done`. Corresponds to
    /// PopSpecificPod.
    pub fn pop_specific(&mut self, uid: &str, now: Instant) -> Option<QueuedPod> {
        let (queued, _) = self.pods.get(uid)?;
        let profile = self.profiles.of(&queued.info.pod)?;
        let is_held = self.judge(profile, &queued.info).is_err();
        if is_held || self.in_flight.contains_key(uid) {
            return None;
        }
        let (queued, _) = self.take(uid)?;
        Some(self.begin_cycle(queued, now))
    }

    fn begin_cycle(&mut self, mut queued: QueuedPod, now: Instant) -> QueuedPod {
        queued.attempts += 1;
        queued.first_attempt.get_or_insert(now);
        self.in_flight.insert(queued.info.uid().to_owned(), self.events);
        queued
    }

    /// Ends a pod's cycle, with or without success.
    pub fn done(&mut self, uid: &str) {
        self.in_flight.swap_remove(uid);
        let oldest = self.in_flight.values().min().copied().unwrap_or(self.events);
        if self.recent.keys().next().is_some_and(|event| *event < oldest) {
            self.recent = self.recent.split_off(&oldest);
        }
    }

    /// Returns a pod that was not scheduled to the queue. `rejected_by` is empty after an error.
    pub fn add_unschedulable(&mut self, mut queued: QueuedPod, rejected_by: BTreeSet<&'static str>, now: Instant) {
        let uid = queued.info.uid().to_owned();
        let Some(taken_at) = self.in_flight.get(&uid).copied() else { return };
        match rejected_by.is_empty() {
            true => queued.errors += 1,
            false => (queued.rejections, queued.errors) = (queued.rejections + 1, 0),
        }
        (queued.since, queued.was_flushed) = (now, false);
        queued.rejected_by = rejected_by;
        (queued.event, queued.trail) = (history::ATTEMPT_FAILED, Trail::default());
        // Events during the cycle count as if they happened now.
        let (by, info) = (&queued.rejected_by, &queued.info);
        let mut since = self.recent.range(taken_at..).map(|(_, event)| event);
        let may_fit = by.is_empty() || since.any(|event| self.may_fit(by, info, event));
        self.done(&uid);
        if self.pods.contains_key(&uid) {
            return; // the pod was added again during its cycle
        }
        if may_fit {
            return self.requeue(queued, now);
        }
        let position = QueuePosition::Unschedulable((now, self.next_arrival()));
        self.put(queued, position);
    }

    /// Tries unschedulable and gated pods again that the event may help.
    pub fn on_event(&mut self, event: &ClusterEvent, now: Instant) {
        self.on_event_for(event, now, |_| true);
    }

    /// Tries unschedulable and gated pods again that the event may help and that `concerns` selects.
    pub fn on_event_for(&mut self, event: &ClusterEvent, now: Instant, concerns: impl Fn(&PodInfo) -> bool) {
        self.end_preemptions_by(event);
        let may_fit = |uid: &&String| {
            let (queued, _) = &self.pods[*uid];
            concerns(&queued.info) && self.may_fit(&queued.rejected_by, &queued.info, event)
        };
        let uids: Vec<String> =
            self.unschedulable.values().chain(self.gated.values()).filter(may_fit).cloned().collect();
        for uid in uids {
            if let Some((queued, _)) = self.take(&uid) {
                self.requeue(queued.after(event.label()), now);
            }
        }
        self.record_event(event.clone());
    }

    /// Moves a pod to the active queue at once.
    pub fn force_activate(&mut self, uid: &str) {
        match self.take(uid) {
            Some((queued, _)) => self.activate(queued.after(history::FORCED)),
            None if self.in_flight.contains_key(uid) => self.record_event(ClusterEvent::Forced { uid: uid.to_owned() }),
            None => {}
        }
    }

    /// Replaces the profiles. Every pod is judged again, because another profile may have another order, and may schedule
    /// what the former one could not. Pods without a profile are dropped.
    pub fn reconfigure(&mut self, profiles: Arc<Profiles>, now: Instant) {
        let uids: Vec<String> = self.pods.keys().cloned().collect();
        let all: Vec<QueuedPod> = uids.iter().filter_map(|uid| self.take(uid)).map(|(queued, _)| queued).collect();
        self.order = Order::new(profiles.queue_sort().cloned());
        self.profiles = profiles;
        for queued in all {
            match self.profiles.of(&queued.info.pod) {
                Some(_) => self.requeue(queued.after(history::FORCED), now),
                None => self.nominated.remove(queued.info.uid()),
            }
        }
    }

    /// Returns true if the pod is in the queue or in a cycle.
    pub fn contains(&self, uid: &str) -> bool {
        self.pods.contains_key(uid) || self.in_flight.contains_key(uid)
    }

    /// Returns true if `pop` may have a pod now.
    pub fn has_ready(&self) -> bool {
        !(self.active.is_empty() && self.backoff.is_empty())
    }

    /// Returns the time at which `pop` may have a pod without a further event.
    pub fn next_due(&self) -> Option<Instant> {
        let window_end = |window: u64| self.epoch + Duration::from_secs((window + 1) * BACK_OFF_WINDOW_S);
        let error = self.error_backoff.first_key_value().map(|(window, _)| window_end(*window));
        let unschedulable = self.unschedulable.first_key_value().map(|((since, _), _)| *since + MAX_IN_UNSCHEDULABLE);
        [error, unschedulable].into_iter().flatten().min()
    }

    /// Returns the numbers of active, backed-off, unschedulable and gated pods.
    pub fn lengths(&self) -> [usize; 4] {
        let backoff = self.backoff.values().chain(self.error_backoff.values()).map(SortedPods::len).sum();
        [self.active.len(), backoff, self.unschedulable.len(), self.gated.len()]
    }

    /// Returns a pod of the queue.
    pub fn get(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.get(uid).map(|(queued, _)| &queued.info)
    }

    /// Keeps an event for the pods in flight.
    fn record_event(&mut self, event: ClusterEvent) {
        if !self.in_flight.is_empty() {
            self.recent.insert(self.events, event);
        }
        self.events += 1;
    }

    fn window(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.epoch).as_secs() / BACK_OFF_WINDOW_S
    }

    /// Moves pods to the active queue whose back-off or time in the unschedulable queue is over.
    fn flush(&mut self, now: Instant) {
        let present = self.window(now);
        let over = |queue: &BackoffQueue| {
            queue.first_key_value().filter(|(window, _)| **window < present)?.1.first().map(str::to_owned)
        };
        while let Some(uid) = over(&self.backoff).or_else(|| over(&self.error_backoff)) {
            if let Some((queued, _)) = self.take(&uid) {
                self.put_in_active(queued.after(history::BACKOFF_COMPLETE));
            }
        }
        while let Some((&(since, _), uid)) = self.unschedulable.first_key_value() {
            if now < since + MAX_IN_UNSCHEDULABLE {
                break;
            }
            let uid = uid.clone();
            if let Some((queued, _)) = self.take(&uid) {
                let queued = QueuedPod { was_flushed: true, ..queued };
                self.activate(queued.after(history::TIMED_OUT));
            }
        }
    }

    /// Moves a pod to the active queue, or to a back-off queue if its back-off is not over.
    fn requeue(&mut self, queued: QueuedPod, now: Instant) {
        let until = queued.backoff_end(&self.profiles).map(|until| self.window(until));
        match until.filter(|window| *window >= self.window(now)) {
            Some(window) => self.put_in_backoff(queued, window),
            None => self.activate(queued),
        }
    }

    /// Moves a pod to the active queue, unless a PreEnqueue plugin rejects it.
    fn activate(&mut self, queued: QueuedPod) {
        if let Some(queued) = self.run_pre_enqueue(queued) {
            self.put_in_active(queued);
        }
    }

    /// Returns the pod if no PreEnqueue plugin rejects it. Drops a pod without a profile, which is another scheduler's now.
    fn run_pre_enqueue(&mut self, mut queued: QueuedPod) -> Option<QueuedPod> {
        let profile = self.profiles.of(&queued.info.pod)?;
        let began = self.metrics.as_ref().map(QueueMetrics::now);
        let judged = self.judge(profile, &queued.info);
        if let (Some(metrics), Some(began)) = (&self.metrics, began) {
            metrics.pre_enqueued(&profile.scheduler_name, code(&judged), began);
        }
        let Err(rejection) = judged else {
            queued.held_since = None;
            return Some(queued);
        };
        queued.held_since.get_or_insert(self.present);
        queued.rejected_by.insert(rejection.plugin);
        let position = QueuePosition::Gated(self.next_arrival());
        self.put(queued, position);
        None
    }

    fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    fn put_in_active(&mut self, queued: QueuedPod) {
        let position = QueuePosition::Active(self.next_arrival());
        self.put(queued, position);
    }

    fn put_in_backoff(&mut self, queued: QueuedPod, window: u64) {
        let Some(queued) = self.run_pre_enqueue(queued) else { return };
        let key = (window, self.next_arrival());
        let position =
            if queued.rejected_by.is_empty() { QueuePosition::ErrorBackoff(key) } else { QueuePosition::Backoff(key) };
        self.put(queued, position);
    }

    fn put(&mut self, mut queued: QueuedPod, position: QueuePosition) {
        let event = queued.event;
        self.record_move(&mut queued, position.label(), event);
        self.put_back(queued, position);
    }

    fn put_back(&mut self, queued: QueuedPod, position: QueuePosition) {
        let uid = queued.info.uid().to_owned();
        match position {
            QueuePosition::Active(arrival) => self.active.insert(&self.order, queued.to_compare(), arrival),
            QueuePosition::Backoff((window, arrival)) => {
                self.backoff.entry(window).or_default().insert(&self.order, queued.to_compare(), arrival);
            }
            QueuePosition::ErrorBackoff((window, arrival)) => {
                self.error_backoff.entry(window).or_default().insert(&self.order, queued.to_compare(), arrival);
            }
            QueuePosition::Unschedulable(key) => drop(self.unschedulable.insert(key, uid.clone())),
            QueuePosition::Gated(key) => drop(self.gated.insert(key, uid.clone())),
        }
        self.pods.insert(uid, (queued, position));
    }

    fn take(&mut self, uid: &str) -> Option<(QueuedPod, QueuePosition)> {
        let (queued, position) = self.pods.remove(uid)?;
        match position {
            QueuePosition::Active(arrival) => self.active.remove(arrival),
            QueuePosition::Backoff(key) => remove(&mut self.backoff, key),
            QueuePosition::ErrorBackoff(key) => remove(&mut self.error_backoff, key),
            QueuePosition::Unschedulable(key) => drop(self.unschedulable.remove(&key)),
            QueuePosition::Gated(key) => drop(self.gated.remove(&key)),
        }
        Some((queued, position))
    }
}

fn remove(queue: &mut BackoffQueue, (window, arrival): BackoffKey) {
    if let Some(pods) = queue.get_mut(&window) {
        pods.remove(arrival);
        if pods.is_empty() {
            queue.remove(&window);
        }
    }
}

#[cfg(test)]
mod tests;
