//! The pod group cycle: finds nodes for the pods of a group in one snapshot, and keeps them only if the group may run.
//!
//! Corresponds to the algorithms of pkg/scheduler/schedule_one_podgroup.go. Pure, but for what Reserve plugins keep.
//!
//! ```text
//! for each pod: PreFilter ... Score -> assume in the snapshot -> Reserve -> Permit
//! Permit allows one of them -> the group is schedulable: what was reserved stays
//! none is allowed           -> Unreserve all, in reverse order
//! ```
//!
//! Two gangs can never hold half of the cluster each: the second one sees either all pods of the first, or none.

use crate::cache::{NodeInfo, Snapshot};
use crate::cycle::{self, Rotation};
use crate::observer::{Observed, Observer};
use crate::placement::{Assignments, GroupInCycle, Placement};
use crate::pod_info::PodInfo;
use crate::{
    CycleError, CycleExtender, CycleState, FitError, Nominated, Nomination, PodGroups, PostFilterResult, Profile,
};
use component_base::rng::Random;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a cycle reads and changes. The snapshot is as before at its end.
pub struct PodGroupCycle<'a> {
    pub profile: &'a Profile,
    /// Key of the group.
    pub key: &'a str,
    pub groups: &'a PodGroups,
    pub snapshot: &'a mut Snapshot,
    pub nominated: &'a Nominated,
    pub rotation: &'a mut Rotation,
    pub random: &'a Random,
    pub extender: Option<&'a dyn CycleExtender>,
    pub observer: &'a dyn Observer,
}

/// The node of one pod of the group.
pub struct Place {
    pub node: String,
    pub state: CycleState,
    /// The preemption without which the pod does not fit, with the reason.
    pub preemption: Option<(PostFilterResult, FitError)>,
    /// Permit plugins for which the pod has to wait; empty if it is allowed.
    pub waits_for: BTreeSet<&'static str>,
}

pub enum PodResult {
    Placed(Box<Place>),
    /// No node fits, and preemption does not help.
    Unschedulable(FitError, Nomination),
    /// An extender has failed.
    Failed(String),
}

/// The result for the group as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The placed pods hold what they have reserved.
    Schedulable,
    /// The group fits when victims are gone.
    WaitingForPreemption,
    Unschedulable,
    /// One pod ended with an error. The others are not tried.
    Failed,
}

pub struct PodGroupResult {
    /// Results in the order of the pods. Empty if the cycle did not come to them.
    pub pods: Vec<PodResult>,
    pub verdict: Verdict,
    /// What is to be said besides the verdict.
    pub message: String,
}

/// Whether PostFilter plugins run for single pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostFilters {
    Run,
    Skip,
}

impl PodGroupResult {
    pub fn unschedulable(message: String) -> Self {
        Self { pods: Vec::new(), verdict: Verdict::Unschedulable, message }
    }

    /// Returns true if the group can run, now or after a preemption.
    fn is_feasible(&self) -> bool {
        matches!(self.verdict, Verdict::Schedulable | Verdict::WaitingForPreemption)
    }
}

impl PodGroupCycle<'_> {
    /// Finds nodes for the pods, in their order.
    pub async fn run(&mut self, pods: &[Arc<PodInfo>], post_filters: PostFilters) -> PodGroupResult {
        if self.profile.placement_generate.is_empty() {
            return self.run_in(None, pods, post_filters, true).await;
        }
        let generated = self.placements(pods);
        match generated {
            Ok(placements) => self.run_placements(&placements, pods, post_filters).await,
            Err(message) => PodGroupResult::unschedulable(message),
        }
    }

    /// Returns true if the group would run without preemption of single pods. Nothing stays reserved.
    pub async fn would_fit(&mut self, pods: &[Arc<PodInfo>]) -> bool {
        self.run_in(None, pods, PostFilters::Skip, false).await.is_feasible()
    }

    fn placements(&self, pods: &[Arc<PodInfo>]) -> Result<Vec<Placement>, String> {
        let Self { key, groups, snapshot, .. } = self;
        let group = GroupInCycle { key, groups, pods, snapshot };
        let all = Placement { name: "all".to_owned(), nodes: snapshot.nodes().to_vec() };
        let mut placements = vec![all];
        for plugin in &self.profile.placement_generate {
            let mut smaller = Vec::new();
            for parent in &placements {
                smaller.append(&mut plugin.generate_placements(&group, parent)?);
            }
            placements = smaller;
        }
        if placements.is_empty() { Err("no placements are available".to_owned()) } else { Ok(placements) }
    }

    /// Tries the group in each placement, and takes the best of those in which it fits.
    async fn run_placements(
        &mut self,
        placements: &[Placement],
        pods: &[Arc<PodInfo>],
        post_filters: PostFilters,
    ) -> PodGroupResult {
        if let [only] = placements {
            return self.run_in(Some(only), pods, post_filters, true).await;
        }
        let (mut first, mut feasible) = (None, Vec::new());
        for placement in placements {
            let result = self.run_in(Some(placement), pods, post_filters, false).await;
            if result.verdict == Verdict::Failed {
                return result;
            }
            if result.is_feasible() {
                feasible.push((placement, result));
            } else if first.is_none() {
                first = Some(result);
            }
        }
        if feasible.is_empty() {
            let first = first.unwrap_or_else(|| PodGroupResult::unschedulable(String::new()));
            let message = format!(
                "0/{} placements are available, first placement status: {}",
                placements.len(),
                if first.message.is_empty() { UNSCHEDULABLE } else { &first.message }
            );
            return PodGroupResult { message, ..first };
        }
        let best = self.best_placement(pods, &feasible);
        let (placement, _) = feasible[best];
        self.run_in(Some(placement), pods, post_filters, true).await
    }

    /// Returns the index of the placement with the highest score; of several, a random one.
    fn best_placement(&self, pods: &[Arc<PodInfo>], feasible: &[(&Placement, PodGroupResult)]) -> usize {
        let Self { key, groups, snapshot, .. } = self;
        let group = GroupInCycle { key, groups, pods, snapshot };
        let assignments: Vec<Assignments<'_>> = feasible
            .iter()
            .map(|(placement, result)| Assignments { placement, proposed: proposed(pods, result) })
            .collect();
        let mut totals = vec![0_i64; feasible.len()];
        for (plugin, weight) in &self.profile.placement_score {
            let mut scores: Vec<i64> = assignments.iter().map(|one| plugin.score_placement(&group, one)).collect();
            plugin.normalize_placements(&mut scores);
            for (total, score) in totals.iter_mut().zip(scores) {
                *total = total.saturating_add(weight.saturating_mul(score));
            }
        }
        let most = totals.iter().max();
        let best: Vec<usize> = (0..totals.len()).filter(|at| Some(&totals[*at]) == most).collect();
        best[self.random.below(best.len())]
    }

    /// Finds nodes within a placement. If `keeps` is false, nothing stays reserved, whatever the verdict, and nobody observes it.
    async fn run_in(
        &mut self,
        placement: Option<&Placement>,
        pods: &[Arc<PodInfo>],
        post_filters: PostFilters,
        keeps: bool,
    ) -> PodGroupResult {
        let mut restricted = placement.map(|placement| placement.snapshot(self.snapshot));
        let mut assumed = Assumed { snapshot: restricted.as_mut().unwrap_or(self.snapshot), before: Vec::new() };
        let mut nominated = self.nominated.clone();
        let mut pass = Pass {
            profile: self.profile,
            groups: self.groups,
            rotation: self.rotation,
            random: self.random,
            extender: self.extender,
            observer: keeps.then_some(self.observer),
        };
        let (mut results, mut message) = (Vec::new(), String::new());
        let (mut requires_preemption, mut verdict) = (false, Verdict::Unschedulable);
        for (at, pod) in pods.iter().enumerate() {
            let result = pass.place(at, pod, &mut assumed, &mut nominated, post_filters).await;
            match &result {
                PodResult::Placed(place) => {
                    requires_preemption |= place.preemption.is_some();
                    // One allowed pod means that the group may run, with all its pods that fit.
                    if place.waits_for.is_empty() || verdict != Verdict::Unschedulable {
                        verdict =
                            if requires_preemption { Verdict::WaitingForPreemption } else { Verdict::Schedulable };
                    }
                }
                PodResult::Unschedulable(..) => {}
                PodResult::Failed(why) => {
                    verdict = Verdict::Failed;
                    message = format!("failed to schedule other pod from a pod group: {why}");
                }
            }
            results.push(result);
            if verdict == Verdict::Failed {
                break;
            }
        }
        if !keeps || verdict != Verdict::Schedulable {
            for (pod, result) in pods.iter().zip(&results).rev() {
                if let PodResult::Placed(place) = result {
                    pass.unreserve(pod, place);
                }
            }
        }
        assumed.restore();
        if verdict == Verdict::WaitingForPreemption {
            "pod group is waiting for preemption to complete".clone_into(&mut message);
        }
        PodGroupResult { pods: results, verdict, message }
    }
}

/// Reason for which pods are rejected that would fit without their group.
pub const UNSCHEDULABLE: &str = "pod group is unschedulable";

fn proposed<'a>(pods: &'a [Arc<PodInfo>], result: &'a PodGroupResult) -> Vec<(&'a PodInfo, &'a str)> {
    let placed = pods.iter().zip(&result.pods).filter_map(|(pod, result)| match result {
        PodResult::Placed(place) => Some((&**pod, place.node.as_str())),
        PodResult::Unschedulable(..) | PodResult::Failed(_) => None,
    });
    placed.collect()
}

/// A snapshot with assumed pods, and the former states of their nodes.
struct Assumed<'a> {
    snapshot: &'a mut Snapshot,
    before: Vec<Arc<NodeInfo>>,
}

impl Assumed<'_> {
    /// Adds a pod to a node, in place of its victims.
    fn assume(&mut self, pod: &Arc<PodInfo>, node: &str, victims: &[Arc<PodInfo>]) {
        let Some(before) = self.snapshot.get(node).cloned() else { return };
        let mut after = (*before).clone();
        victims.iter().for_each(|victim| drop(after.remove_pod(victim.uid())));
        after.add_pod(pod.clone());
        self.snapshot.replace(Arc::new(after));
        self.before.push(before);
    }

    fn forget_last(&mut self) {
        if let Some(before) = self.before.pop() {
            self.snapshot.replace(before);
        }
    }

    fn restore(mut self) {
        while !self.before.is_empty() {
            self.forget_last();
        }
    }
}

/// What the pods of one pass share.
struct Pass<'a> {
    profile: &'a Profile,
    groups: &'a PodGroups,
    rotation: &'a mut Rotation,
    random: &'a Random,
    extender: Option<&'a dyn CycleExtender>,
    observer: Option<&'a dyn Observer>,
}

impl Pass<'_> {
    /// Finds the node of one pod, and assumes and reserves it there, so that the next pod sees it.
    async fn place(
        &mut self,
        at: usize,
        pod: &Arc<PodInfo>,
        assumed: &mut Assumed<'_>,
        nominated: &mut Nominated,
        post_filters: PostFilters,
    ) -> PodResult {
        let mut state = CycleState::default();
        state.in_pod_group_cycle = true;
        state.timings = self.observer.map(Observer::timings).unwrap_or_default();
        let (began, next_start) = (state.timings.begin(), self.rotation.next_start());
        let snapshot = &*assumed.snapshot;
        let (profile, extender, rotation) = (self.profile, self.extender, &mut *self.rotation);
        let cycle =
            cycle::schedule_one_with(extender, profile, &mut state, pod, snapshot, nominated, rotation, self.random);
        let (mut decided, mut post_filter) = (cycle.await, None);
        if let (Err(CycleError::NoFit(error)), PostFilters::Run) = (&mut decided, post_filters) {
            let result = cycle::post_filter(extender, profile, error, &mut state, pod, snapshot, nominated);
            post_filter = Some(result.await);
        }
        if let Some(observer) = self.observer {
            let (state, decided, post_filter) = (&mut state, &decided, post_filter.as_ref());
            observer.decided(at, Observed { began, state, snapshot, nominated, next_start, decided, post_filter });
        }
        let (node, preemption) = match (decided, post_filter) {
            (Ok(decision), _) => (decision.node, None),
            (Err(CycleError::Failed(message)), _) => return PodResult::Failed(message),
            (Err(CycleError::NoFit(error)), None) => return PodResult::Unschedulable(error, Nomination::Clear),
            (Err(CycleError::NoFit(error)), Some(result)) => match &result.nomination {
                Nomination::Node(node) => (node.clone(), Some((result, error))),
                other => return PodResult::Unschedulable(error, other.clone()),
            },
        };
        let victims = preemption.as_ref().map(|(result, _)| result.victims.as_slice()).unwrap_or_default();
        assumed.assume(pod, &node, victims);
        // The snapshot has the pod now, where a nomination would count it twice.
        nominated.remove(pod.uid());
        self.groups.assume(pod, &node);
        let reserved = match preemption.is_some() {
            // What the victims hold is not free yet.
            true => Ok(()),
            false => profile.run_reserve(&mut state, pod, &node),
        };
        let permitted = reserved.and_then(|()| profile.run_permit(&mut state, pod, &node));
        let mut place = Place { node, state, preemption, waits_for: BTreeSet::new() };
        match permitted {
            Ok(waits) => {
                place.waits_for = waits.into_keys().collect();
                PodResult::Placed(Box::new(place))
            }
            Err(rejection) => {
                self.unreserve(pod, &place);
                assumed.forget_last();
                PodResult::Unschedulable(FitError::rejected_on_chosen(rejection), Nomination::Clear)
            }
        }
    }

    fn unreserve(&self, pod: &Arc<PodInfo>, place: &Place) {
        self.groups.forget(pod);
        self.profile.run_unreserve(&place.state, pod, &place.node);
    }
}
