//! Schedules all pods of a PodGroup in one cycle, and writes what became of it.
//!
//! Corresponds to the outer half of pkg/scheduler/schedule_one_podgroup.go.

use super::failure::Failure;
use super::pod_group_observer::GroupObserver;
use super::{Attempt, Decided, Scheduler};
use crate::binding::{self, Evictions};
use crate::pod_group_condition;
use crate::queue::QueuedPod;
use client::{Plan, Recorder};
use proto::Kind;
use scheduler_explanation::group_preemption;
use scheduler_plugins::gang_scheduling;
use scheduling_framework::cache::Snapshot;
use scheduling_framework::cycle::Rotation;
use scheduling_framework::pod_group_cycle::{
    Place, PodGroupCycle, PodGroupResult, PodResult, PostFilters, UNSCHEDULABLE, Verdict,
};
use scheduling_framework::pod_group_preemption::GroupCandidate;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, Nominated, Nomination};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tracing::Instrument;

impl Scheduler {
    /// Schedules the pods of the group that need nodes. `first` is the one that the queue has given.
    pub(super) async fn schedule_pod_group(
        self: &Arc<Self>,
        key: &str,
        first: QueuedPod,
        snapshot: &mut Snapshot,
        rotation: &mut Rotation,
    ) {
        let pods = self.take_group(key, first);
        if let Err(why) = one_scheduler_name(&pods) {
            return self.fail_all(key, pods, &why).await;
        }
        let mut attempts: Vec<Attempt> = pods.into_iter().filter_map(|pod| self.wanted(pod)).collect();
        let Some(attempt) = attempts.first() else { return };
        let (began, profile, recorder) = (attempt.began, attempt.profile.clone(), attempt.recorder.clone());
        self.cache.lock().update(snapshot);
        let nominated = self.queue.with(|queue, _| queue.nominated.clone());
        let span = tracing::info_span!("schedule", pod_group = key);
        let cycle = self.run_pod_group_cycle(key, &attempts, &nominated, snapshot, rotation).instrument(span);
        let (result, victims, kept) = cycle.await;
        tracing::info!(pod_group = key, verdict = ?result.verdict, pods = attempts.len(), "pod group");
        kept.into_iter().for_each(|(at, id)| attempts[at].kept = Some(id));
        let (condition, verdict) = (Condition::of(&result), result.verdict);
        self.submit(attempts, result, victims, &nominated).await;
        if let Some(metrics) = &self.group_metrics {
            metrics.ended(verdict, &profile, self.env.now() - began);
        }
        self.write_condition(key, condition, recorder);
    }

    /// Returns the result with the victims of the group, and the numbers of the attempts that are kept.
    async fn run_pod_group_cycle(
        &self,
        key: &str,
        attempts: &[Attempt],
        nominated: &Nominated,
        snapshot: &mut Snapshot,
        rotation: &mut Rotation,
    ) -> (PodGroupResult, Vec<Arc<PodInfo>>, BTreeMap<usize, u64>) {
        let (began, first) = (self.env.now(), &attempts[0]);
        let pods: Vec<Arc<PodInfo>> = attempts.iter().map(|attempt| attempt.queued.info.clone()).collect();
        let observer = GroupObserver::new(self, attempts);
        let mut cycle = PodGroupCycle {
            profile: &first.profile,
            key,
            groups: &self.pod_groups,
            snapshot,
            nominated,
            rotation,
            random: &self.random,
            extender: first.extenders.in_cycle(),
            observer: &observer,
        };
        let post_filters = if self.preempts_for_groups { PostFilters::Skip } else { PostFilters::Run };
        let mut result = cycle.run(&pods, post_filters).await;
        if let Some(metrics) = &self.group_metrics {
            metrics.decided(self.env.now() - began);
        }
        let preempts = self.preempts_for_groups && result.verdict == Verdict::Unschedulable;
        let considered = if preempts { Some(cycle.preempt(&pods).await) } else { None };
        let kept = observer.into_kept();
        let victims = match considered {
            None => Vec::new(),
            Some(considered) => {
                if let Some(attempts) = &self.attempts {
                    let ids: Vec<u64> = kept.values().copied().collect();
                    let said = considered.as_deref().map_err(String::as_str);
                    attempts.preempted_for_group(&ids, Arc::new(group_preemption::document(key, said)));
                }
                Self::victims_of_group(considered, &mut result)
            }
        };
        (result, victims, kept)
    }

    /// Returns the pods to evict for a group, and changes its result by what preemption has come to.
    fn victims_of_group(
        considered: Result<Vec<GroupCandidate>, String>,
        result: &mut PodGroupResult,
    ) -> Vec<Arc<PodInfo>> {
        match considered {
            Ok(candidates) => {
                result.verdict = Verdict::WaitingForPreemption;
                candidates.into_iter().filter(|one| one.is_evicted).flat_map(|one| one.pods).collect()
            }
            Err(why) => {
                result.add_message(&why);
                Vec::new()
            }
        }
    }

    /// Takes the other pods of the group from the queue. Those of higher priority come first, then those that were tried
    /// first.
    fn take_group(&self, key: &str, first: QueuedPod) -> Vec<QueuedPod> {
        let mut pods = vec![first];
        let first = pods[0].info.uid().to_owned();
        let unscheduled = self.pod_groups.state(key).unscheduled;
        self.queue.with(|queue, now| {
            let others = unscheduled.iter().filter(|uid| **uid != first);
            pods.extend(others.filter_map(|uid| queue.pop_specific(uid, now)));
        });
        pods.sort_by_cached_key(|pod| (Reverse(pod.info.priority), pod.first_attempt, pod.info.key.clone()));
        pods
    }

    /// Begins a try of a pod that still needs a node. Any other pod leaves the queue.
    fn wanted(&self, mut queued: QueuedPod) -> Option<Attempt> {
        let uid = queued.info.uid().to_owned();
        let needs_node = self.refresh(&mut queued) && !self.cache.lock().is_assumed(&uid);
        let attempt = self.attempt(queued).filter(|_| needs_node).filter(|attempt| {
            let is_deleting = attempt.queued.info.pod.is_deleting();
            if is_deleting {
                attempt.recorder.record(binding::skipped_event(&attempt.queued.info));
            }
            !is_deleting
        });
        if attempt.is_none() {
            self.queue.with(|queue, _| queue.done(&uid));
        }
        attempt
    }

    /// Rejects all pods because of an error that concerns the group.
    async fn fail_all(self: &Arc<Self>, key: &str, pods: Vec<QueuedPod>, why: &str) {
        let attempts = pods.into_iter().filter_map(|pod| self.wanted(pod));
        let failed = |attempt| self.settle(attempt, CycleState::default(), Err(Failure::because(why)));
        let decided: Vec<Decided> = attempts.filter_map(failed).collect();
        self.finish_all(decided).await;
        tracing::warn!(pod_group = key, why, "pod group");
    }

    /// Binds the pods of a group that is schedulable, and rejects all others.
    async fn submit(
        self: &Arc<Self>,
        attempts: Vec<Attempt>,
        result: PodGroupResult,
        victims: Vec<Arc<PodInfo>>,
        nominated: &Nominated,
    ) {
        let PodGroupResult { pods, verdict, message } = result;
        let mut results = pods.into_iter();
        let mut evictions = match attempts.first() {
            Some(first) if !victims.is_empty() => {
                let by = format!("pod group {}", first.queued.info.pod_group_key().unwrap_or_default());
                self.evict(&first.queued.info, &victims, &[], &by)
            }
            _ => Evictions::default(),
        };
        let mut decided = Vec::new();
        // All pods have their nodes or are in the queue again before the first write, so that none waits for one that is not
        // tried, and no part of the group is tried alone.
        for attempt in attempts {
            let (state, reserved) = match results.next() {
                Some(PodResult::Failed(why)) => (CycleState::default(), Err(Failure::because(&why))),
                _ if verdict == Verdict::Failed => (CycleState::default(), Err(Failure::because(&message))),
                None => (CycleState::default(), Err(Failure::of_group(&message, BTreeSet::new()))),
                Some(PodResult::Unschedulable(error, nomination)) => {
                    (CycleState::default(), Err(Failure { nomination, ..Failure::unschedulable(&error) }))
                }
                Some(PodResult::Placed(place)) if verdict == Verdict::Schedulable => {
                    let Place { node, mut state, .. } = *place;
                    let reserved = self.reserve(&attempt, &mut state, &node).map(|()| node);
                    self.metrics.observe(&attempt.profile, &state.timings);
                    (state, reserved)
                }
                Some(PodResult::Placed(place)) => {
                    let failure = self.without_group(&attempt.queued.info, *place, verdict, &message, nominated);
                    (CycleState::default(), Err(failure))
                }
            };
            let reserved = reserved.map_err(|mut failure| {
                failure.evictions.append(std::mem::take(&mut evictions));
                failure
            });
            decided.extend(self.settle(attempt, state, reserved));
        }
        self.finish_all(decided).await;
    }

    async fn finish_all(self: &Arc<Self>, all: Vec<Decided>) {
        for decided in all {
            let permit = self.permit().await;
            self.finish(decided, permit).await;
        }
    }

    /// Returns the failure of a pod that would fit, but whose group does not, or not yet.
    fn without_group(
        &self,
        info: &PodInfo,
        place: Place,
        verdict: Verdict,
        message: &str,
        nominated: &Nominated,
    ) -> Failure {
        let Place { node, preemption, mut waits_for, .. } = place;
        match (preemption, verdict) {
            (Some((result, error)), Verdict::WaitingForPreemption) => {
                let nomination = result.nomination.clone();
                let evictions = Box::new(self.evictions(info, result, nominated));
                Failure { nomination, evictions, ..Failure::unschedulable(&error) }
            }
            (None, Verdict::WaitingForPreemption) => {
                waits_for.insert(gang_scheduling::NAME);
                Failure { nomination: Nomination::Node(node), ..Failure::of_group(message, waits_for) }
            }
            // A pod that the group's other pods could follow is woken with them.
            _ => {
                let why = if waits_for.contains(gang_scheduling::NAME) { gang_scheduling::WAITING } else { message };
                waits_for.insert(gang_scheduling::NAME);
                Failure::of_group(why, waits_for)
            }
        }
    }

    /// Writes the condition of the group, if it has changed.
    fn write_condition(self: &Arc<Self>, key: &str, condition: Condition, recorder: Arc<Recorder>) {
        let Some(group) = self.pod_groups.state(key).object else { return };
        let Condition { is_true, reason, message } = condition;
        let Some(action) = pod_group_condition::scheduled(&group, is_true, reason, &message, self.env.wall()) else {
            return;
        };
        let (scheduler, key) = (self.clone(), key.to_owned());
        self.env.spawn(async move {
            let plan = Plan { actions: vec![action], ..Plan::default() };
            if let Err(error) = client::apply(&scheduler.client, &recorder, &plan).await {
                tracing::warn!(pod_group = key, %error, "status of the pod group not written");
            }
        });
    }
}

/// The condition `PodGroupScheduled`.
struct Condition {
    is_true: bool,
    reason: &'static str,
    message: String,
}

impl Condition {
    fn of(result: &PodGroupResult) -> Self {
        match result.verdict {
            Verdict::Schedulable => Self { is_true: true, reason: "Scheduled", message: String::new() },
            Verdict::WaitingForPreemption | Verdict::Unschedulable => {
                Self { is_true: false, reason: "Unschedulable", message: group_message(&result.message) }
            }
            Verdict::Failed => Self { is_true: false, reason: "SchedulerError", message: result.message.clone() },
        }
    }
}

fn group_message(message: &str) -> String {
    if message.is_empty() { UNSCHEDULABLE.to_owned() } else { format!("{UNSCHEDULABLE}, {message}") }
}

impl Failure {
    /// Returns the failure of a pod whose group is unschedulable.
    fn of_group(message: &str, rejected_by: BTreeSet<&'static str>) -> Self {
        let message = group_message(message);
        Self { reason: binding::UNSCHEDULABLE, message, rejected_by, ..Self::because("") }
    }
}

/// Returns an error if the pods name several schedulers.
fn one_scheduler_name(pods: &[QueuedPod]) -> Result<(), String> {
    let name = |pod: &QueuedPod| pod.info.spec().scheduler_name.clone().unwrap_or_default();
    let first = pods.first().map(name).unwrap_or_default();
    match pods.iter().map(name).find(|other| *other != first) {
        None => Ok(()),
        Some(other) => Err(format!(
            "all pods in a single pod group should have the same .spec.schedulerName set, got: {first:?} and {other:?}"
        )),
    }
}
