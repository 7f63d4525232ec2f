//! `Profile`, the plugins of each extension point with their order and weights.
//!
//! Corresponds to pkg/scheduler/profile and pkg/scheduler/framework/runtime.

use crate::cache::{NodeInfo, Snapshot};
use crate::configuration::plugin_sets::Point;
use crate::configuration::profile::TieBreak;
use crate::kept_results::KeptResults;
use crate::local_scores::LocalScores;
use crate::plugin_scores::{PluginScores, Scores};
use crate::rejection::code;
use crate::*;
use serde_json::Value;
use std::collections::BTreeMap;

/// The plugins of one scheduler name. Each list is in the order in which its plugins run.
#[derive(Clone, Default)]
pub struct Profile {
    pub scheduler_name: String,
    pub pre_enqueue: Vec<Arc<dyn PreEnqueue>>,
    pub queue_sort: Option<Arc<dyn QueueSort>>,
    pub pre_filter: Vec<Arc<dyn PreFilter>>,
    pub filter: Vec<Arc<dyn Filter>>,
    pub post_filter: Vec<Arc<dyn PostFilter>>,
    pub pre_score: Vec<Arc<dyn PreScore>>,
    /// Score plugins with their weights.
    pub score: Vec<(Arc<dyn Score>, i64)>,
    pub reserve: Vec<Arc<dyn Reserve>>,
    pub permit: Vec<Arc<dyn Permit>>,
    pub pre_bind: Vec<Arc<dyn PreBind>>,
    pub bind: Vec<Arc<dyn Bind>>,
    pub post_bind: Vec<Arc<dyn PostBind>>,
    pub sign: Vec<Arc<dyn Sign>>,
    pub pod_group_post_filter: Vec<Arc<dyn PodGroupPostFilter>>,
    pub placement_generate: Vec<Arc<dyn PlacementGenerate>>,
    /// Plugins that score placements, with their weights.
    pub placement_score: Vec<(Arc<dyn PlacementScore>, i64)>,
    /// All plugins, for their queueing hints.
    pub plugins: Vec<Arc<dyn Plugin>>,
    /// Percentage of feasible nodes that are enough; 0 for a part that shrinks with the cluster.
    pub percentage_of_nodes_to_score: usize,
    pub tie_break: TieBreak,
    /// Arguments by plugin, as configured.
    pub args: BTreeMap<String, Value>,
    /// What the plugins have found about single nodes.
    pub kept: KeptResults,
}

/// The nodes that remain after the PreFilter plugins.
pub struct Candidates {
    /// Names of the nodes; `None` for all nodes.
    pub names: Option<BTreeSet<String>>,
    /// Plugins that have restricted the nodes.
    pub restricted_by: Vec<&'static str>,
}

impl Candidates {
    fn restrict(&mut self, plugin: &'static str, names: BTreeSet<String>) -> Result<(), Rejection> {
        self.restricted_by.push(plugin);
        let names: BTreeSet<String> = match self.names.take() {
            Some(present) => present.intersection(&names).cloned().collect(),
            None => names,
        };
        if names.is_empty() {
            let reason = match self.restricted_by.as_slice() {
                [one] => format!("node(s) didn't satisfy plugin {one}"),
                several => format!("node(s) didn't satisfy plugin(s) [{}] simultaneously", several.join(" ")),
            };
            return Err(Rejection::unresolvable(plugin, reason));
        }
        self.names = Some(names);
        Ok(())
    }

    /// Returns the rejection of a node that is not a candidate.
    pub fn exclusion(&self) -> Option<Rejection> {
        let first = self.restricted_by.first()?;
        let reason = format!("node(s) didn't satisfy plugin(s) [{}]", self.restricted_by.join(" "));
        Some(Rejection::unresolvable(first, reason))
    }
}

impl Profile {
    pub fn run_pre_enqueue(&self, pod: &PodInfo) -> Result<(), Rejection> {
        self.pre_enqueue.iter().try_for_each(|plugin| plugin.pre_enqueue(pod))
    }

    pub fn run_pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<Candidates, Rejection> {
        let began = state.timings.begin();
        let candidates = self.pre_filter_candidates(state, pod, snapshot);
        state.timings.end(began, Point::PreFilter, code(&candidates));
        candidates
    }

    fn pre_filter_candidates(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<Candidates, Rejection> {
        let mut candidates = Candidates { names: None, restricted_by: Vec::new() };
        for plugin in &self.pre_filter {
            match plugin.pre_filter(state, pod, snapshot)? {
                PreFilterResult::AllNodes => {}
                PreFilterResult::Skip => state.skip_filter.insert(plugin.name()),
                PreFilterResult::Nodes(names) => candidates.restrict(plugin.name(), names)?,
            }
        }
        Ok(candidates)
    }

    /// Updates the PreFilter data for a simulation in which the node has the pod `added`.
    pub fn run_add_pod(&self, state: &mut CycleState, pod: &PodInfo, added: &PodInfo, node: &NodeInfo) {
        for plugin in &self.pre_filter {
            if !state.skip_filter.contains(plugin.name()) {
                plugin.add_pod(state, pod, added, node);
            }
        }
    }

    /// Updates the PreFilter data for a simulation in which the node lacks the pod `removed`.
    pub fn run_remove_pod(&self, state: &mut CycleState, pod: &PodInfo, removed: &PodInfo, node: &NodeInfo) {
        for plugin in &self.pre_filter {
            if !state.skip_filter.contains(plugin.name()) {
                plugin.remove_pod(state, pod, removed, node);
            }
        }
    }

    /// Returns the rejection of the first plugin that rejects the node.
    pub fn run_filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let plugins = self.filter.iter().filter(|plugin| !state.skip_filter.contains(plugin.name()));
        let filter = |plugin: &Arc<dyn Filter>| {
            state.timings.plugin(plugin.name(), Point::Filter, code, || plugin.filter(state, pod, node))
        };
        plugins.map(filter).find(Result::is_err).unwrap_or(Ok(()))
    }

    /// Runs the PostFilter plugins for a pod that no node fits, and adds their message to the error.
    pub fn run_post_filters(
        &self,
        error: &mut FitError,
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nominated: &Nominated,
    ) -> PostFilterResult {
        let FitError::NoFit { diagnosis, post_filter_message, .. } = error else {
            return PostFilterResult { nomination: Nomination::Clear, ..PostFilterResult::default() };
        };
        let failed = FailedCycle { profile: self, state, pod, snapshot, diagnosis, nominated };
        let result = self.first_post_filter_result(&failed);
        post_filter_message.clone_from(&result.message);
        result
    }

    fn first_post_filter_result(&self, failed: &FailedCycle<'_>) -> PostFilterResult {
        let (mut nomination, mut reasons, mut writes) = (Nomination::Keep, Vec::new(), Vec::new());
        for plugin in &self.post_filter {
            let mut result = match plugin.post_filter(failed) {
                Ok(result) => result,
                Err(message) => return PostFilterResult { message, writes, ..PostFilterResult::default() },
            };
            writes.append(&mut result.writes);
            match result.nomination {
                Nomination::Node(_) => return PostFilterResult { writes, earlier_messages: reasons, ..result },
                Nomination::Clear => nomination = Nomination::Clear,
                Nomination::Keep => {}
            }
            reasons.push(result.message);
        }
        PostFilterResult { nomination, message: reasons.join(", "), writes, ..PostFilterResult::default() }
    }

    /// Scores nodes of the snapshot. Returns what is wrong with a score that is out of range.
    pub fn run_score(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &FeasibleNodes<'_>,
    ) -> Result<Scores, String> {
        let began = state.timings.begin();
        for plugin in &self.pre_score {
            if plugin.pre_score(state, pod, snapshot, nodes) == PreScoreResult::Skip {
                state.skip_score.insert(plugin.name());
            }
        }
        state.timings.end(began, Point::PreScore, "Success");
        let began = state.timings.begin();
        let scores = self.scores(state, pod, snapshot, nodes);
        state.timings.end(began, Point::Score, "Success");
        scores
    }

    fn scores(
        &self,
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &FeasibleNodes<'_>,
    ) -> Result<Scores, String> {
        let running: Vec<usize> =
            (0..self.score.len()).filter(|at| !state.skip_score.contains(self.score[*at].0.name())).collect();
        let mut kept = self.kept.take(pod);
        // Kept scores have no duration, so a sampled cycle asks the plugins.
        let local_scores = (!state.timings.samples_plugins()).then(|| {
            let local: Vec<usize> = running.iter().copied().filter(|at| self.score[*at].0.is_local(state)).collect();
            let scores = kept.scores();
            scores.follow(&local, &self.score, snapshot);
            scores.update(&self.score, state, pod, snapshot, nodes);
            &*scores
        });
        let sums = local_scores.filter(|_| state.only_totals).and_then(|scores| scores.sums(nodes));
        let mut scores = Scores::default();
        let mut result = Ok(());
        let has_sums = sums.is_some();
        scores.totals = sums.unwrap_or_else(|| vec![0; nodes.len()]);
        for at in running {
            let (plugin, weight) = &self.score[at];
            let mut of_plugin = PluginScores { plugin: plugin.name(), weight: *weight, scores: Vec::new() };
            let is_uniform = || plugin.uniform_score(pod, snapshot).is_some();
            if !has_sums || !(local_scores.is_some_and(|scores| scores.are_summed(at)) || is_uniform()) {
                of_plugin.scores = self.normalized(at, local_scores, state, pod, snapshot, nodes);
                result = result.and_then(|()| of_plugin.check());
                of_plugin.add_to(&mut scores.totals);
                if state.only_totals {
                    of_plugin.scores = Vec::new();
                }
            }
            scores.of_plugins.push(of_plugin);
        }
        self.kept.put_back(kept, snapshot.nodes().len());
        result.map(|()| scores)
    }

    /// Returns the normalized scores of a plugin by its place in the profile.
    fn normalized(
        &self,
        at: usize,
        local_scores: Option<&LocalScores>,
        state: &CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
        nodes: &FeasibleNodes<'_>,
    ) -> Vec<i64> {
        let (plugin, _) = &self.score[at];
        let measured = |node: &NodeInfo| {
            let score = || plugin.score(state, pod, node, snapshot);
            state.timings.plugin(plugin.name(), Point::Score, |_| "Success", score)
        };
        let score = || match state.timings.samples_plugins() {
            true => nodes.iter().map(measured).collect(),
            false => plugin.score_all(state, pod, nodes, snapshot),
        };
        let mut scores = local_scores.and_then(|scores| scores.of(at, nodes)).unwrap_or_else(score);
        plugin.normalize(state, pod, nodes, &mut scores);
        scores
    }

    /// Runs the Reserve plugins. After a rejection the caller runs Unreserve.
    pub fn run_reserve(&self, state: &mut CycleState, pod: &PodInfo, node: &str) -> Result<(), Rejection> {
        let began = state.timings.begin();
        let reserved = self.reserve.iter().try_for_each(|plugin| plugin.reserve(state, pod, node));
        state.timings.end(began, Point::Reserve, code(&reserved));
        reserved
    }

    /// Runs Unreserve in reverse order. It has no effect for plugins that have reserved nothing.
    pub fn run_unreserve(&self, state: &CycleState, pod: &PodInfo, node: &str) {
        for plugin in self.reserve.iter().rev() {
            plugin.unreserve(state, pod, node);
        }
    }

    /// Runs the Permit plugins. Returns those for which the pod has to wait, and how long.
    pub fn run_permit(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        node: &str,
    ) -> Result<BTreeMap<&'static str, Duration>, Rejection> {
        let (began, mut waits) = (state.timings.begin(), BTreeMap::new());
        let permitted = self.permit.iter().try_for_each(|plugin| {
            if let Permission::Wait(wait) = plugin.permit(state, pod, node)? {
                waits.insert(plugin.name(), wait);
            }
            Ok(())
        });
        let status = if waits.is_empty() { code(&permitted) } else { "Wait" };
        state.timings.end(began, Point::Permit, status);
        permitted.map(|()| waits)
    }

    /// Returns the PreBind plugins that have something to do for the pod.
    pub fn to_pre_bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Vec<&dyn PreBind> {
        let plugins = self.pre_bind.iter().map(|plugin| &**plugin);
        plugins.filter(|plugin| plugin.pre_bind_pre_flight(state, pod, node) == PreBindPreFlight::Run).collect()
    }

    pub async fn run_bind(&self, state: &CycleState, pod: &PodInfo, node: &str) -> Result<(), BindError> {
        for plugin in &self.bind {
            if let Some(bound) = plugin.bind(state, pod, node).await {
                return bound.map_err(|message| BindError::Plugin { point: "Bind", plugin: plugin.name(), message });
            }
        }
        Err(BindError::NoBinder)
    }

    pub fn run_post_bind(&self, pod: &PodInfo, node: &str) {
        self.post_bind.iter().for_each(|plugin| plugin.post_bind(pod, node));
    }

    /// Returns true if the event may make a pod schedulable that these plugins have rejected. `ask` runs the hint of one.
    pub fn may_become_schedulable(
        &self,
        rejected_by: &BTreeSet<&'static str>,
        pod: &PodInfo,
        event: &ClusterEvent,
        ask: impl Fn(&dyn Plugin) -> bool,
    ) -> bool {
        let mut plugins = self.plugins.iter().filter(|plugin| rejected_by.contains(plugin.name()));
        // Extenders give no hints, so any event may help.
        let forced = matches!(event, ClusterEvent::Forced { .. }) || rejected_by.contains(EXTENDER);
        event.concerns(pod) && (forced || plugins.any(|plugin| ask(&**plugin)))
    }
}

/// Normalizes scores so that the highest becomes 100, or with `reverse` so that 0 becomes 100. Corresponds to
/// helper.DefaultNormalizeScore.
pub fn normalize_to_highest(scores: &mut [i64], reverse: bool) {
    let highest = scores.iter().copied().max().unwrap_or(0);
    for score in scores.iter_mut() {
        let scaled = if highest == 0 { 0 } else { *score * MAX_NODE_SCORE / highest };
        *score = if reverse { MAX_NODE_SCORE - scaled } else { scaled };
    }
}
