//! The scheduling cycle: finds the node of a pod in a snapshot, or the reasons for which no node fits.
//!
//! Corresponds to pkg/scheduler/schedule_one.go. Pure: no clock, no API. The same snapshot, rotation and seed give the
//! same decision. Only extenders wait for something.

use crate::batch::{Batched, Batches, ScoredNodes};
use crate::cache::node_set;
use crate::cache::{NodeInfo, Snapshot};
use crate::configuration::plugin_sets::Point;
use crate::configuration::profile::TieBreak;
use crate::feasible_nodes::FeasibleNodes;
use crate::node_judge::{self, Judged, NodeJudge};
pub use crate::plugin_scores::totals;
use crate::plugin_scores::{PluginScores, Scores};
use crate::pod_info::PodInfo;
use crate::profile::Candidates;
use crate::{
    CycleError, CycleExtender, CycleState, Diagnosis, FitError, Nominated, Nomination, PostFilterResult, Profile,
    Rejection, Rejections,
};
use component_base::rng::Random;
use futures::FutureExt;
use std::sync::Arc;

/// Smaller clusters are searched completely.
const MIN_FEASIBLE_NODES_TO_FIND: usize = 100;
/// Smallest part of a large cluster that is searched, in percent.
const MIN_PERCENTAGE_OF_NODES_TO_FIND: usize = 5;

/// The state that one cycle leaves for the next.
#[derive(Debug, Default)]
pub struct Rotation {
    /// Index of the node at which the next search begins, so that the searches rotate over all nodes.
    next_start: usize,
    /// Number of ties that `TieBreak::RoundRobin` has decided.
    ties: usize,
    /// Number of cycles that have begun.
    cycles: u64,
    /// Results for equal pods; `None` if each pod is searched for.
    pub batches: Option<Batches>,
}

impl Rotation {
    /// Begins the next search at this node.
    pub fn at(next_start: usize) -> Self {
        Self { next_start, ..Self::default() }
    }

    pub fn next_start(&self) -> usize {
        self.next_start
    }
}

/// The node of a pod, and how it was chosen.
#[derive(Clone, Debug)]
pub struct Decision {
    pub node: String,
    /// Number of nodes that were filtered.
    pub evaluated: usize,
    /// Numbers in the snapshot of the nodes on which the pod fits.
    pub feasible: Vec<usize>,
    /// The plugins that have scored, with their scores in the order of `feasible`. Empty if only one node is feasible.
    pub scores: Vec<PluginScores>,
    /// Rejections of the other nodes that were filtered.
    pub rejections: Rejections,
}

/// Finds the node for a pod without extenders. The plugins leave their data in `state`.
pub fn schedule_one(
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
    random: &Random,
) -> Result<Decision, FitError> {
    let decided = schedule_one_with(None, profile, state, pod, snapshot, nominated, rotation, random);
    decided.now_or_never().expect("only extenders wait").map_err(|error| match error {
        CycleError::NoFit(error) => error,
        CycleError::Failed(message) => FitError::Failed(message),
    })
}

/// Finds the node for a pod. Without extenders it awaits nothing.
pub async fn schedule_one_with(
    extender: Option<&dyn CycleExtender>,
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
    random: &Random,
) -> Result<Decision, CycleError> {
    rotation.cycles += 1;
    let candidates = pre_filter(profile, state, pod, snapshot)?;
    let (began, mut found) = (state.timings.begin(), None);
    if let Some(node) = nominated_node(profile, state, pod, snapshot, nominated, &candidates) {
        let mut search = Search::of_one(snapshot, node);
        match ask(extender, pod, &mut search).await {
            Ok(()) => found = Some(search).filter(|search| !search.feasible.is_empty()),
            Err(error) => tracing::warn!(pod = pod.key, error, "the nominated node was not evaluated"),
        }
    }
    let batched = match found {
        Some(_) => Batched::default(),
        None => hint(profile, state, pod, snapshot, nominated, rotation, random),
    };
    let fits = |node: &usize| fits_on(profile, state, pod, snapshot, nominated, &candidates, *node);
    if let Some(node) = batched.hint.filter(fits) {
        let mut search = Search::of_one(snapshot, node);
        ask(extender, pod, &mut search).await.map_err(CycleError::Failed)?;
        found = Some(search).filter(|search| !search.feasible.is_empty());
    }
    let search = match found {
        Some(search) => search,
        None => {
            let compared = !profile.score.is_empty() || extender.is_some_and(CycleExtender::compares_nodes);
            let mut search = search(profile, state, pod, snapshot, nominated, rotation, &candidates, compared);
            ask(extender, pod, &mut search).await.map_err(CycleError::Failed)?;
            search
        }
    };
    state.timings.end(began, Point::Filter, search.code());
    let search = search.or_no_fit()?;
    let mut scores = score(profile, state, pod, &search)?;
    state.end_search();
    if let Some(extender) = extender.filter(|_| search.feasible.len() > 1)
        && let Some(of_extender) = extender.prioritize(pod, &search.nodes()).await
    {
        of_extender.add_to(&mut scores.totals);
        scores.of_plugins.push(of_extender);
    }
    let (decision, chosen, totals) = choose(profile, search, scores, rotation, random);
    store(profile, state, snapshot, batched, &decision, chosen, totals, rotation);
    Ok(decision)
}

/// Returns the hint that the last cycle has left for the pod.
fn hint(
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
    random: &Random,
) -> Batched {
    // In a group the pods before have no nodes yet that would stay.
    let Some(mut batches) = rotation.batches.take_if(|_| !state.in_pod_group_cycle) else { return Batched::default() };
    let cycle = rotation.cycles;
    let best = |rest: &ScoredNodes| {
        let name = |at: usize| snapshot.nodes()[rest.nodes[at]].name();
        select(profile, &name, &rest.totals, rotation, random)
    };
    let batched = batches.hint(profile, state, pod, snapshot, nominated, cycle, best);
    rotation.batches = Some(batches);
    batched
}

/// Leaves the nodes that were not chosen for the next cycle. `chosen` is the place of the one that was.
fn store(
    profile: &Profile,
    state: &mut CycleState,
    snapshot: &Snapshot,
    batched: Batched,
    decision: &Decision,
    chosen: usize,
    totals: Vec<i64>,
    rotation: &mut Rotation,
) {
    let cycle = rotation.cycles;
    let Some(batches) = rotation.batches.as_mut().filter(|_| !state.in_pod_group_cycle) else { return };
    let (node, has_others) = (decision.feasible[chosen], decision.feasible.len() > 1);
    let others = || {
        let mut nodes = ScoredNodes { nodes: decision.feasible.clone(), totals };
        nodes.take(chosen);
        nodes
    };
    batches.store(profile, state, snapshot, batched, node, has_others, others, cycle);
}

/// Lets the extenders filter.
async fn ask(extender: Option<&dyn CycleExtender>, pod: &PodInfo, search: &mut Search<'_>) -> Result<(), String> {
    match extender {
        Some(extender) => extender.filter(pod, search).await,
        None => Ok(()),
    }
}

/// Runs the PostFilter plugins for a pod that no node fits, and lets the extenders change a preemption.
pub async fn post_filter(
    extender: Option<&dyn CycleExtender>,
    profile: &Profile,
    error: &mut FitError,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
) -> PostFilterResult {
    let began = state.timings.begin();
    let mut result = profile.run_post_filters(error, state, pod, snapshot, nominated);
    if let Some(extender) = extender {
        extender.process_preemption(pod, snapshot, &mut result, error).await;
    }
    let found = matches!(result.nomination, Nomination::Node(_));
    state.timings.end(began, Point::PostFilter, if found { "Success" } else { "Unschedulable" });
    result
}

/// The nodes that pass all filters, and the rejections of others.
pub struct Search<'a> {
    snapshot: &'a Snapshot,
    /// Numbers in the snapshot of the nodes on which the pod fits.
    pub feasible: Vec<usize>,
    /// Number of nodes that were filtered.
    pub evaluated: usize,
    pub diagnosis: Diagnosis,
}

impl<'a> Search<'a> {
    /// Returns the search that has ended at the first node.
    pub fn of_one(snapshot: &'a Snapshot, node: usize) -> Self {
        let (feasible, diagnosis) = (vec![node], Diagnosis::default());
        Self { snapshot, feasible, evaluated: 1, diagnosis }
    }

    /// Returns the name of the code of framework.Status.
    pub fn code(&self) -> &'static str {
        if self.feasible.is_empty() { "Unschedulable" } else { "Success" }
    }

    /// Returns the search if it has found a node.
    pub fn or_no_fit(mut self) -> Result<Self, FitError> {
        if !self.feasible.is_empty() {
            return Ok(self);
        }
        let Diagnosis { rejections, plugins, .. } = &mut self.diagnosis;
        plugins.extend(rejections.counts().map(|(rejection, _)| rejection.plugin));
        Err(FitError::no_fit(self.snapshot.nodes().len(), self.diagnosis))
    }

    pub fn nodes(&self) -> Vec<&'a NodeInfo> {
        self.feasible.iter().map(|node| &*self.snapshot.nodes()[*node]).collect()
    }

    /// Returns all nodes, also those on which the pod does not fit.
    pub fn all_nodes(&self) -> &'a [Arc<NodeInfo>] {
        self.snapshot.nodes()
    }

    /// Adds the rejection of a node that has passed the filters, or replaces it. A node that does not exist is ignored.
    pub fn reject(&mut self, node: &str, rejection: Rejection) {
        if let Some(number) = self.snapshot.index_of(node) {
            self.diagnosis.rejections.set(number, rejection);
        }
    }

    /// Keeps the nodes that `is_kept` selects by name.
    pub fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        let nodes = self.snapshot.nodes();
        self.feasible.retain(|node| is_kept(nodes[*node].name()));
    }
}

/// Runs the PreFilter plugins. Returns the nodes that are left to filter.
pub fn pre_filter(
    profile: &Profile,
    state: &mut CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
) -> Result<Candidates, FitError> {
    if snapshot.nodes().is_empty() {
        return Err(FitError::NoNodes);
    }
    let no_fit = |rejection| FitError::no_fit(snapshot.nodes().len(), Diagnosis::before_filters(rejection));
    profile.run_pre_filter(state, pod, snapshot).map_err(no_fit)
}

/// Returns the number of the node that preemption has nominated, if the pod fits there now.
pub fn nominated_node(
    profile: &Profile,
    state: &CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    candidates: &Candidates,
) -> Option<usize> {
    let node = snapshot.index_of(pod.nominated_node_name())?;
    fits_on(profile, state, pod, snapshot, nominated, candidates, node).then_some(node)
}

/// Returns true if the pod fits on the node with this number.
fn fits_on(
    profile: &Profile,
    state: &CycleState,
    pod: &PodInfo,
    snapshot: &Snapshot,
    nominated: &Nominated,
    candidates: &Candidates,
    node: usize,
) -> bool {
    let node = &snapshot.nodes()[node];
    let is_candidate = candidates.names.as_ref().is_none_or(|names| names.contains(node.name()));
    is_candidate && passes_filters(profile, state, pod, node, nominated).is_ok()
}

/// Finds the nodes that pass all filters, up to a sufficient number. One is enough if nobody compares them.
pub fn search<'a>(
    profile: &Profile,
    state: &CycleState,
    pod: &PodInfo,
    snapshot: &'a Snapshot,
    nominated: &Nominated,
    rotation: &mut Rotation,
    candidates: &Candidates,
    compared: bool,
) -> Search<'a> {
    let all_nodes = snapshot.nodes().len();
    let numbers: Option<Vec<usize>> =
        candidates.names.as_ref().map(|names| names.iter().filter_map(|name| snapshot.index_of(name)).collect());
    let count = numbers.as_ref().map_or(all_nodes, Vec::len);
    let plugins = candidates.restricted_by.iter().copied().collect();
    let enough = match compared {
        false => 1,
        true => feasible_nodes_to_find(profile.percentage_of_nodes_to_score, count),
    };
    let nominations = nominated.versions(snapshot);
    let own_nominated = nominated.node_of(pod.uid()).and_then(|name| snapshot.index_of(name));
    let mut kept = profile.kept.take(pod);
    let (verdicts, with_nominated) = kept.verdicts(node_judge::local_filters(profile, state), snapshot);
    let mut judge = NodeJudge::new(profile, state, pod, snapshot, verdicts);
    let mut judged = Judged { feasible: Vec::with_capacity(enough), ..Judged::default() };
    // Kept verdicts have no duration, so a sampled cycle asks the plugins.
    let is_sampled = state.timings.samples_plugins();
    let keeps_nominated = !is_sampled && node_judge::all_are_local(profile, state);
    let mut one_by_one = |node: usize, judge: &mut NodeJudge<'_>, judged: &mut Judged| {
        let version = nominations.get(&node).copied();
        if version.is_none() && !is_sampled {
            return judge.judge_one(node, judged);
        }
        let info = &snapshot.nodes()[node];
        let filtered = || passes_filters(profile, state, pod, info, nominated).err().map(Arc::new);
        let rejection = match version.filter(|_| keeps_nominated && own_nominated != Some(node)) {
            Some(version) => with_nominated.of(pod, snapshot, node, version, filtered),
            None => filtered(),
        };
        judged.evaluated += 1;
        match rejection {
            Some(rejection) => judged.rejections.push(node, &rejection),
            None => judged.feasible.push(node),
        }
    };
    let start = rotation.next_start % count.max(1);
    for places in node_set::words(start..count).chain(node_set::words(0..start)) {
        if judged.feasible.len() >= enough {
            break;
        }
        let is_plain = numbers.is_none() && !is_sampled && nominations.range(places.clone()).next().is_none();
        if is_plain {
            judge.judge(places, enough, &mut judged);
            continue;
        }
        for place in places {
            one_by_one(numbers.as_ref().map_or(place, |numbers| numbers[place]), &mut judge, &mut judged);
            if judged.feasible.len() >= enough {
                break;
            }
        }
    }
    drop(judge);
    profile.kept.put_back(kept, all_nodes);
    let Judged { feasible, rejections, evaluated } = judged;
    rotation.next_start = (rotation.next_start + evaluated) % all_nodes;
    let diagnosis = Diagnosis { rejections, others: candidates.exclusion(), plugins, ..Diagnosis::default() };
    Search { snapshot, feasible, evaluated, diagnosis }
}

/// Scores the nodes. A single one needs no score. A score that is out of range ends the cycle.
fn score(profile: &Profile, state: &mut CycleState, pod: &PodInfo, search: &Search<'_>) -> Result<Scores, FitError> {
    if search.feasible.len() == 1 {
        return Ok(Scores { totals: vec![0], ..Scores::default() });
    }
    let nodes = FeasibleNodes::new(search.snapshot, &search.feasible);
    profile.run_score(state, pod, search.snapshot, &nodes).map_err(FitError::Failed)
}

/// Chooses a node with the highest score. Returns its place among the feasible nodes, and the totals of all of them too.
fn choose(
    profile: &Profile,
    search: Search<'_>,
    scores: Scores,
    rotation: &mut Rotation,
    random: &Random,
) -> (Decision, usize, Vec<i64>) {
    let name = |at: usize| search.snapshot.nodes()[search.feasible[at]].name();
    let chosen = select(profile, &name, &scores.totals, rotation, random);
    let node = name(chosen).to_owned();
    let Search { feasible, evaluated, diagnosis, .. } = search;
    let decision = Decision { node, evaluated, feasible, scores: scores.of_plugins, rejections: diagnosis.rejections };
    (decision, chosen, scores.totals)
}

/// Returns the place of a node with the highest score. `name` returns the name of the node at a place.
fn select<'a>(
    profile: &Profile,
    name: &dyn Fn(usize) -> &'a str,
    totals: &[i64],
    rotation: &mut Rotation,
    random: &Random,
) -> usize {
    match profile.tie_break {
        TieBreak::Random => select_host(totals, random),
        TieBreak::RoundRobin => select_next_host(name, totals, rotation),
    }
}

/// Returns the number of feasible nodes that are enough. A percentage of 0 stands for half of the nodes of a small cluster,
/// and a smaller part of a larger one.
fn feasible_nodes_to_find(percentage: usize, nodes: usize) -> usize {
    if nodes < MIN_FEASIBLE_NODES_TO_FIND {
        return nodes;
    }
    let percentage = match percentage {
        0 => 50_usize.saturating_sub(nodes / 125).max(MIN_PERCENTAGE_OF_NODES_TO_FIND),
        percentage => percentage,
    };
    (nodes * percentage / 100).max(MIN_FEASIBLE_NODES_TO_FIND)
}

/// Filters one node, with the pods that are nominated to it and without them, because they may never come. The node may
/// be a hypothetical one that `state` includes.
pub fn passes_filters(
    profile: &Profile,
    state: &CycleState,
    pod: &PodInfo,
    node: &NodeInfo,
    nominated: &Nominated,
) -> Result<(), Rejection> {
    if let Some((state, node)) = with_nominated(profile, state, pod, node, nominated) {
        profile.run_filter(&state, pod, &node)?;
    }
    profile.run_filter(state, pod, node)
}

/// Returns the node with the pods that are nominated to it; `None` without such pods.
pub fn with_nominated(
    profile: &Profile,
    state: &CycleState,
    pod: &PodInfo,
    node: &NodeInfo,
    nominated: &Nominated,
) -> Option<(CycleState, NodeInfo)> {
    let mut others = nominated.of_equal_or_higher_priority(pod, node.name()).peekable();
    others.peek()?;
    let (mut state, mut node) = (state.clone(), node.clone());
    for other in others {
        node.add_pod(other.clone());
        profile.run_add_pod(&mut state, pod, other, &node);
    }
    Some((state, node))
}

/// Returns the node with the highest score; of several, the next one by name.
fn select_next_host<'a>(name: &dyn Fn(usize) -> &'a str, totals: &[i64], rotation: &mut Rotation) -> usize {
    let most = totals.iter().max();
    let mut best: Vec<usize> = (0..totals.len()).filter(|node| Some(&totals[*node]) == most).collect();
    if let [only] = best[..] {
        return only;
    }
    best.sort_by_key(|node| name(*node));
    rotation.ties = rotation.ties.wrapping_add(1);
    best[rotation.ties.wrapping_sub(1) % best.len()]
}

/// Returns the node with the highest score; of several, a random one. One number decides among all of them. kube-scheduler draws one
/// for each, which gives each node the same chance too, and costs more where many nodes are equal.
fn select_host(totals: &[i64], random: &Random) -> usize {
    let most = totals.iter().fold(i64::MIN, |most, total| most.max(*total));
    let ties = totals.iter().filter(|total| **total == most).count();
    let chosen = if ties > 1 { random.below(ties) } else { 0 };
    let mut best = totals.iter().enumerate().filter(|(_, total)| **total == most);
    best.nth(chosen).map_or(0, |(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_nodes_is_enough() {
        let found = |percentage| {
            [1, 50, 99, 100, 150, 200, 500, 1000, 5000, 6000].map(|nodes| feasible_nodes_to_find(percentage, nodes))
        };
        assert_eq!(found(0), [1, 50, 99, 100, 100, 100, 230, 420, 500, 300]);
        assert_eq!(found(1), [1, 50, 99, 100, 100, 100, 100, 100, 100, 100]);
        assert_eq!(found(60), [1, 50, 99, 100, 100, 120, 300, 600, 3000, 3600]);
    }

    #[test]
    fn ties_are_broken_by_the_seed_alone() {
        let chosen = |seed: u64| {
            let random = Random::from_seed(seed, "ties");
            (0..8).map(|_| select_host(&[14, 18, 18, 18, 6], &random)).collect::<Vec<_>>()
        };
        assert_eq!(chosen(1), chosen(1));
        assert_ne!(chosen(1), chosen(2));
        let mut all = chosen(3);
        all.extend(chosen(4));
        all.sort();
        all.dedup();
        assert_eq!(all, [1, 2, 3]);
    }

    #[test]
    fn equal_nodes_have_equal_chances() {
        let random = Random::from_seed(5, "ties");
        let mut counts = [0_i32; 4];
        (0..4000).for_each(|_| counts[select_host(&[7, 7, 7, 7], &random)] += 1);
        assert!(counts.iter().all(|count| (count - 1000).abs() < 100), "{counts:?}");
        let (random, same) = (Random::from_seed(6, "ties"), Random::from_seed(6, "ties"));
        assert_eq!(select_host(&[1, 2], &random), 1);
        assert_eq!(random.u64(), same.u64(), "a single node needs no number");
    }
}
