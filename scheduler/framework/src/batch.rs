//! `Batches`, what a cycle leaves for the next pod if that is equal: the nodes that it did not choose, with their scores.
//!
//! The next pod takes the best of these nodes without a search, unless it fits on the node of the pod before. So this helps
//! pods of which a node takes one.
//! Corresponds to pkg/scheduler/framework/runtime/batch.go (KEP-5598).

use crate::cache::Snapshot;
use crate::pod_info::PodInfo;
use crate::sign::PodSignature;
use crate::{CycleState, Nominated, Profile};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Longest time for which results are used.
const MAX_AGE: Duration = Duration::from_millis(500);

/// Nodes by their numbers, with the weighted sums of their scores.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScoredNodes {
    pub nodes: Vec<usize>,
    /// In the order of `nodes`.
    pub totals: Vec<i64>,
}

impl ScoredNodes {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Removes the node at a place, and returns its number.
    pub fn take(&mut self, place: usize) -> usize {
        self.totals.remove(place);
        self.nodes.remove(place)
    }
}

/// Batches by the scheduler name of their profile.
#[derive(Debug, Default)]
pub struct Batches(BTreeMap<String, Batch>);

#[derive(Debug)]
struct Batch {
    /// False if the profile signs no pods.
    signs: bool,
    rest: Option<Rest>,
    last: Option<LastCycle>,
}

/// The nodes that a cycle has not chosen.
#[derive(Debug)]
struct Rest {
    signature: PodSignature,
    nodes: ScoredNodes,
    since: Option<Instant>,
}

/// The last cycle of the profile that has found a node.
#[derive(Debug)]
struct LastCycle {
    number: u64,
    chosen: String,
    /// Version of its snapshot.
    version: u64,
}

/// What batching has done in a cycle, with Kubernetes' labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchTrace {
    /// `hint` or `no_hint`, with the time that it took; `None` if no hint was sought.
    pub hinted: Option<(&'static str, Duration)>,
    pub attempts: Vec<&'static str>,
    /// Reasons for which results were not used, or not kept.
    pub flushed: Vec<&'static str>,
    /// Time that it took to keep the results.
    pub stored: Option<Duration>,
}

/// The pod of a cycle, for its batch.
#[derive(Debug, Default)]
pub struct Batched {
    signature: Option<PodSignature>,
    /// Number of the node that the pod should get.
    pub hint: Option<usize>,
}

impl Batches {
    fn of(&mut self, profile: &Profile) -> &mut Batch {
        let new = || Batch { signs: profile.signs_pods(), rest: None, last: None };
        self.0.entry(profile.scheduler_name.clone()).or_insert_with(new)
    }

    /// Returns the hint for a pod. `best` returns the place of the node that the cycle would choose of these.
    pub fn hint(
        &mut self,
        profile: &Profile,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nominated: &Nominated,
        cycle: u64,
        best: impl FnOnce(&ScoredNodes) -> usize,
    ) -> Batched {
        let began = state.timings.begin();
        let batch = self.of(profile);
        let signature = if batch.signs { profile.sign_pod(pod) } else { None };
        let usable = batch.usable(profile, state, pod, snapshot, nominated, cycle, signature.as_ref());
        let hint = match (usable, batch.rest.as_mut().filter(|rest| !rest.nodes.is_empty())) {
            (Ok(()), Some(rest)) => Some(rest.nodes.take(best(&rest.nodes))),
            (Ok(()), None) => None,
            (Err(reason), _) => {
                state.batch.flushed.push(reason);
                None
            }
        };
        if hint.is_none() {
            state.batch.attempts.push("no_hint");
        }
        let label = if hint.is_some() { "hint" } else { "no_hint" };
        state.batch.hinted = Some((label, state.timings.since(began)));
        Batched { signature, hint }
    }

    /// Keeps the results of a cycle for the next pod. `others` returns the nodes that the cycle has not chosen; it is called only
    /// if they are of use.
    pub fn store(
        &mut self,
        profile: &Profile,
        state: &mut CycleState,
        snapshot: &Snapshot,
        batched: Batched,
        chosen: usize,
        has_others: bool,
        others: impl FnOnce() -> ScoredNodes,
        cycle: u64,
    ) {
        let began = state.timings.begin();
        let batch = self.of(profile);
        let name = snapshot.nodes()[chosen].name().to_owned();
        batch.last = Some(LastCycle { number: cycle, chosen: name, version: snapshot.version() });
        match batched.hint {
            Some(hint) if hint == chosen => state.batch.attempts.push("hint_used"),
            hint => {
                if hint.is_some() {
                    state.batch.attempts.push("hint_not_used");
                }
                batch.rest = match batched.signature {
                    _ if !has_others => {
                        state.batch.flushed.push("empty_list");
                        None
                    }
                    None => {
                        state.batch.flushed.push("pod_not_batchable");
                        None
                    }
                    Some(signature) => Some(Rest { signature, nodes: others(), since: began }),
                };
            }
        }
        state.batch.stored = Some(state.timings.since(began));
    }
}

impl Batch {
    /// Returns the reason for which the results cannot be used. Without results there is nothing to say.
    /// Deviation: a batch also ends when another node than that of the last pod has changed, or a pod is nominated to a node.
    /// It counts as `expired`. In Kubernetes such changes are seen after half a second.
    fn usable(
        &self,
        profile: &Profile,
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nominated: &Nominated,
        cycle: u64,
        signature: Option<&PodSignature>,
    ) -> Result<(), &'static str> {
        let Some(rest) = self.rest.as_ref().filter(|rest| !rest.nodes.is_empty()) else { return Ok(()) };
        let last = self.last.as_ref().filter(|last| last.number + 1 == cycle).ok_or("pod_skipped")?;
        if signature != Some(&rest.signature) {
            return Err("pod_incompatible");
        }
        if rest.since.is_some() && state.timings.since(rest.since) > MAX_AGE {
            return Err("expired");
        }
        let chosen = snapshot.index_of(&last.chosen).ok_or("node_missing")?;
        let mut changed = snapshot.changed_since(last.version).ok_or("expired")?;
        if changed.any(|node| node != chosen) || !nominated.is_empty() {
            return Err("expired");
        }
        match profile.run_filter(state, pod, &snapshot.nodes()[chosen]) {
            Ok(()) => Err("node_not_full"),
            Err(_) => Ok(()),
        }
    }
}
