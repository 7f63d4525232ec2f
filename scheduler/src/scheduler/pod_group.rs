//! Schedules all pods of a PodGroup in one cycle, and writes what became of it.
//!
//! Corresponds to the outer half of pkg/scheduler/schedule_one_podgroup.go.

use super::{Attempt, Failure, Scheduler};
use crate::binding::{self, Evictions};
use crate::pod_group_condition;
use crate::queue::QueuedPod;
use client::{Plan, Recorder};
use proto::Kind;
use scheduler_plugins::gang_scheduling;
use scheduling_framework::cache::Snapshot;
use scheduling_framework::cycle::Rotation;
use scheduling_framework::pod_group_cycle::{
    Place, PodGroupCycle, PodGroupResult, PodResult, PostFilters, UNSCHEDULABLE, Verdict,
};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{CycleState, Nominated, Nomination, Profile};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

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
        let attempts: Vec<Attempt> = pods.into_iter().filter_map(|pod| self.wanted(pod)).collect();
        let Some(attempt) = attempts.first() else { return };
        let (profile, recorder) = (attempt.profile.clone(), attempt.recorder.clone());
        let infos: Vec<Arc<PodInfo>> = attempts.iter().map(|attempt| attempt.queued.info.clone()).collect();
        self.cache.lock().update(snapshot);
        let nominated = self.queue.with(|queue, _| queue.nominated.clone());
        let span = tracing::info_span!("schedule", pod_group = key);
        let (result, victims) =
            span.in_scope(|| self.run_pod_group_cycle(key, &profile, &infos, &nominated, snapshot, rotation));
        tracing::info!(pod_group = key, verdict = ?result.verdict, pods = infos.len(), "pod group");
        let condition = Condition::of(&result);
        self.submit(attempts, result, victims, &nominated).await;
        self.write_condition(key, condition, recorder);
    }

    fn run_pod_group_cycle(
        &self,
        key: &str,
        profile: &Profile,
        pods: &[Arc<PodInfo>],
        nominated: &Nominated,
        snapshot: &mut Snapshot,
        rotation: &mut Rotation,
    ) -> (PodGroupResult, Vec<Arc<PodInfo>>) {
        let (groups, random) = (&self.pod_groups, &self.random);
        let mut cycle = PodGroupCycle { profile, key, groups, snapshot, nominated, rotation, random };
        if !self.preempts_for_groups {
            return (cycle.run(pods, PostFilters::Run), Vec::new());
        }
        let mut result = cycle.run(pods, PostFilters::Skip);
        let mut victims = Vec::new();
        if result.verdict == Verdict::Unschedulable {
            match cycle.preempt(pods) {
                Ok(found) => {
                    victims = found;
                    result.verdict = Verdict::WaitingForPreemption;
                }
                Err(why) => result.add_message(&why),
            }
        }
        (result, victims)
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
        for attempt in pods.into_iter().filter_map(|pod| self.wanted(pod)) {
            let permit = self.permit().await;
            self.finish(attempt, CycleState::default(), Err(Failure::because(why)), permit).await;
        }
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
        // All pods have their nodes before the first write, so that none waits for one that is not tried.
        for attempt in attempts {
            let (state, reserved) = match results.next() {
                None => (CycleState::default(), Err(Failure::of_group(&message, BTreeSet::new()))),
                Some(PodResult::Unschedulable(error, nomination)) => {
                    (CycleState::default(), Err(Failure { nomination, ..Failure::unschedulable(&error) }))
                }
                Some(PodResult::Placed(place)) if verdict == Verdict::Schedulable => {
                    let Place { node, mut state, .. } = *place;
                    let reserved = self.reserve(&attempt, &mut state, &node).map(|()| node);
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
            decided.push((attempt, state, reserved));
        }
        for (attempt, state, reserved) in decided {
            let permit = self.permit().await;
            self.finish(attempt, state, reserved, permit).await;
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
    fn write_condition(self: &Arc<Self>, key: &str, condition: Condition, recorder: Recorder) {
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
