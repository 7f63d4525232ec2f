//! Explains an attempt: runs every filter and score on every node of its snapshot.

use crate::attempt::{Attempt, Outcome};
use crate::document::{
    Choice, Explanation, FilterVerdict, Moved, NodeScore, NodeVerdict, PointTime, PreFilterStep, PreemptionCandidate,
    Preemptions, SnapshotSize,
};
use proto::Kind;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::configuration::profile::TieBreak;
use scheduling_framework::cycle::{self, Decision};
use scheduling_framework::plugin_scores::PluginScores;
use scheduling_framework::rejection::code;
use scheduling_framework::{
    CycleState, EXTENDER, FailedCycle, FeasibleNodes, FitError, Nomination, PreFilterResult, PreScoreResult,
};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most differences that are listed.
const MAX_DIFFERENCES: usize = 20;

/// Explains an attempt on its snapshot.
pub fn explain(attempt: &Attempt, snapshot: &Snapshot) -> Explanation {
    let mut state = CycleState::default();
    let (pre_filters, allowed) = run_pre_filters(attempt, &mut state, snapshot);
    let rejected = pre_filters.iter().any(|step| !step.reasons.is_empty());
    let node = |node: &Arc<NodeInfo>| filter(attempt, &state, snapshot, node, rejected, allowed.as_ref());
    let mut nodes: Vec<NodeVerdict> = snapshot.nodes().iter().map(node).collect();
    let (mut differences, mut stale_scores) = (compare_fits(attempt, &nodes, snapshot), Vec::new());
    if let Outcome::Found(decision) = &attempt.outcome {
        let raw = score(attempt, &mut state, decision, snapshot);
        stale_scores = stale(decision, &raw);
        differences.extend(stale_scores.iter().map(|plugin| format!("{plugin}: its scores differ from those of then")));
        add_scores(&mut nodes, decision, &raw, snapshot);
    }
    differences.truncate(MAX_DIFFERENCES);
    Explanation {
        attempt: attempt.summary(),
        snapshot: size(snapshot),
        queue: moves(attempt),
        rejected_by: attempt.rejected_by.iter().map(|plugin| (*plugin).to_owned()).collect(),
        pre_filters,
        nodes,
        choice: choice(attempt, snapshot),
        preemption: preemptions(attempt, &state, snapshot),
        group_preemption: attempt.group_preemption.lock().as_deref().cloned(),
        timings: timings(attempt),
        differences,
        stale_scores,
        ..Explanation::default()
    }
}

fn texts(reasons: &[Cow<'static, str>]) -> Vec<String> {
    reasons.iter().map(|reason| reason.to_string()).collect()
}

/// Runs the PreFilter plugins. Returns what each says, and the nodes that all of them allow.
fn run_pre_filters(
    attempt: &Attempt,
    state: &mut CycleState,
    snapshot: &Snapshot,
) -> (Vec<PreFilterStep>, Option<BTreeSet<String>>) {
    let (mut steps, mut allowed) = (Vec::new(), None::<BTreeSet<String>>);
    for plugin in &attempt.profile.pre_filter {
        let mut step = PreFilterStep { plugin: plugin.name().to_owned(), ..PreFilterStep::default() };
        match plugin.pre_filter(state, &attempt.pod, snapshot) {
            Ok(PreFilterResult::AllNodes) => "AllNodes".clone_into(&mut step.result),
            Ok(PreFilterResult::Skip) => {
                state.skip_filter.insert(plugin.name());
                "Skip".clone_into(&mut step.result);
            }
            Ok(PreFilterResult::Nodes(names)) => {
                "Nodes".clone_into(&mut step.result);
                step.nodes = names.iter().cloned().collect();
                allowed = Some(match allowed {
                    Some(before) => before.intersection(&names).cloned().collect(),
                    None => names,
                });
            }
            Err(rejection) => {
                (step.result, step.reasons) = (rejection.code().to_owned(), texts(&rejection.reasons));
                steps.push(step);
                break;
            }
        }
        steps.push(step);
    }
    (steps, allowed)
}

/// Runs every filter on a node, as the cycle does: with the pods that are nominated to it, and without them.
fn filter(
    attempt: &Attempt,
    state: &CycleState,
    snapshot: &Snapshot,
    node: &NodeInfo,
    rejected: bool,
    allowed: Option<&BTreeSet<String>>,
) -> NodeVerdict {
    let Attempt { profile, pod, nominated, outcome, .. } = attempt;
    let name = node.name();
    let found = match outcome {
        Outcome::Found(decision) => snapshot.index_of(name).is_some_and(|number| decision.feasible.contains(&number)),
        Outcome::NotFound { .. } | Outcome::Failed(_) => false,
    };
    let rejection = attempt.rejection(snapshot, name);
    let searched = found || rejection.is_some();
    let mut verdict = NodeVerdict {
        name: name.to_owned(),
        searched,
        chosen: attempt.node() == Some(name),
        nominated_pods: nominated.of_equal_or_higher_priority(pod, name).map(|other| other.key.clone()).collect(),
        ..NodeVerdict::default()
    };
    if rejected {
        return verdict;
    }
    let with_nominated = cycle::with_nominated(profile, state, pod, node, nominated);
    for plugin in profile.filter.iter().filter(|plugin| !state.skip_filter.contains(plugin.name())) {
        let with = with_nominated.as_ref().map_or(Ok(()), |(state, node)| plugin.filter(state, pod, node));
        let result = with.and_then(|()| plugin.filter(state, pod, node));
        let reasons = result.as_ref().err().map(|rejection| texts(&rejection.reasons)).unwrap_or_default();
        let result = code::<()>(&result).to_owned();
        verdict.filters.push(FilterVerdict { plugin: plugin.name().to_owned(), result, reasons });
    }
    // An extender is not asked again.
    if let Some(rejection) = rejection.filter(|one| profile.filter.iter().all(|plugin| plugin.name() != one.plugin)) {
        verdict.filters.push(FilterVerdict {
            plugin: rejection.plugin.to_owned(),
            result: rejection.code().to_owned(),
            reasons: texts(&rejection.reasons),
        });
    }
    let is_allowed = allowed.is_none_or(|names| names.contains(name));
    verdict.fits = is_allowed && verdict.filters.iter().all(|filter| filter.reasons.is_empty());
    verdict
}

/// A plugin's scores before normalization, and after it.
struct Scored {
    raw: Vec<i64>,
    normalized: PluginScores,
}

/// Scores the nodes that the search found. A single one needs no score.
fn score(attempt: &Attempt, state: &mut CycleState, decision: &Decision, snapshot: &Snapshot) -> Vec<Scored> {
    let (profile, pod) = (&attempt.profile, &attempt.pod);
    let nodes = FeasibleNodes::new(snapshot, &decision.feasible);
    if nodes.len() < 2 {
        return Vec::new();
    }
    for plugin in &profile.pre_score {
        if plugin.pre_score(state, pod, snapshot, &nodes) == PreScoreResult::Skip {
            state.skip_score.insert(plugin.name());
        }
    }
    let plugins = profile.score.iter().filter(|(plugin, _)| !state.skip_score.contains(plugin.name()));
    let scored = plugins.map(|(plugin, weight)| {
        let raw: Vec<i64> = nodes.iter().map(|node| plugin.score(state, pod, node, snapshot)).collect();
        let mut scores = raw.clone();
        plugin.normalize(state, pod, &nodes, &mut scores);
        Scored { raw, normalized: PluginScores { plugin: plugin.name(), weight: *weight, scores } }
    });
    scored.collect()
}

/// Adds the recorded scores to the nodes, with the raw ones that were computed again.
fn add_scores(nodes: &mut [NodeVerdict], decision: &Decision, scored: &[Scored], snapshot: &Snapshot) {
    let raw: BTreeMap<&str, &[i64]> =
        scored.iter().map(|plugin| (plugin.normalized.plugin, plugin.raw.as_slice())).collect();
    let places: BTreeMap<&str, usize> =
        decision.feasible.iter().enumerate().map(|(at, number)| (snapshot.nodes()[*number].name(), at)).collect();
    let totals = cycle::totals(&decision.scores, decision.feasible.len());
    for node in nodes {
        let Some(at) = places.get(node.name.as_str()).copied() else { continue };
        let score = |plugin: &PluginScores| NodeScore {
            plugin: plugin.plugin.to_owned(),
            raw: raw.get(plugin.plugin).and_then(|raw| raw.get(at)).copied().unwrap_or_default(),
            score: plugin.scores[at],
            weight: plugin.weight,
        };
        node.scores = decision.scores.iter().map(score).collect();
        node.total = (!decision.scores.is_empty()).then(|| totals[at]);
    }
}

/// Compares the verdicts with those that the cycle has come to.
fn compare_fits(attempt: &Attempt, nodes: &[NodeVerdict], snapshot: &Snapshot) -> Vec<String> {
    let searched = nodes.iter().filter(|node| node.searched);
    let fitted: BTreeSet<&str> = match &attempt.outcome {
        Outcome::Found(decision) => decision.feasible.iter().map(|number| snapshot.nodes()[*number].name()).collect(),
        Outcome::NotFound { .. } | Outcome::Failed(_) => BTreeSet::new(),
    };
    let differing = searched.filter(|node| node.fits != fitted.contains(node.name.as_str()));
    let says = |fits: bool| if fits { "fits" } else { "does not fit" };
    differing.map(|node| format!("{}: {} now, {} then", node.name, says(node.fits), says(!node.fits))).collect()
}

/// Returns the plugins whose scores differ from those of then. Extenders are not asked again.
fn stale(decision: &Decision, scored: &[Scored]) -> Vec<String> {
    let now: BTreeMap<&str, &PluginScores> =
        scored.iter().map(|plugin| (plugin.normalized.plugin, &plugin.normalized)).collect();
    let is_stale = |then: &&PluginScores| {
        then.plugin != EXTENDER && now.get(then.plugin).is_none_or(|now| now.scores != then.scores)
    };
    decision.scores.iter().filter(is_stale).map(|then| then.plugin.to_owned()).collect()
}

fn size(snapshot: &Snapshot) -> SnapshotSize {
    let revision = |version: &str| version.parse().unwrap_or(0);
    let nodes = snapshot.nodes().iter().filter_map(|node| node.node.as_ref());
    let nodes = nodes.map(|node| revision(node.resource_version()));
    let pods = snapshot.nodes().iter().flat_map(|node| &node.pods).map(|pod| revision(pod.pod.resource_version()));
    SnapshotSize {
        nodes: snapshot.nodes().len(),
        pods: snapshot.nodes().iter().map(|node| node.pods.len()).sum(),
        revision: nodes.chain(pods).max().unwrap_or(0),
    }
}

fn moves(attempt: &Attempt) -> Vec<Moved> {
    let moved = |one: &crate::QueueMove| Moved {
        before_ms: u64::try_from(one.before.as_millis()).unwrap_or(u64::MAX),
        queue: one.queue.to_owned(),
        event: one.event.to_owned(),
    };
    attempt.moves.iter().map(moved).collect()
}

fn timings(attempt: &Attempt) -> Vec<PointTime> {
    let time = |one: &scheduling_framework::timings::PointTiming| PointTime {
        point: format!("{:?}", one.point),
        status: one.status.to_owned(),
        took_us: u64::try_from(one.took.as_micros()).unwrap_or(u64::MAX),
    };
    attempt.timings.iter().map(time).collect()
}

/// Returns how the node of an attempt was chosen. Runs no plugin.
pub fn choice(attempt: &Attempt, snapshot: &Snapshot) -> Choice {
    let nominated_node = attempt.pod.nominated_node_name().to_owned();
    let Outcome::Found(decision) = &attempt.outcome else { return Choice { nominated_node, ..Choice::default() } };
    let totals = cycle::totals(&decision.scores, decision.feasible.len());
    let best_total = totals.iter().copied().max().filter(|_| !decision.scores.is_empty());
    let of_best = |at: &usize| best_total.is_none_or(|best| totals[*at] == best);
    let best = (0..decision.feasible.len()).filter(of_best);
    let ties: Vec<String> = best.map(|at| snapshot.nodes()[decision.feasible[at]].name().to_owned()).collect();
    let draw = match attempt.profile.tie_break {
        _ if ties.len() < 2 => "",
        TieBreak::Random => "Random",
        TieBreak::RoundRobin => "RoundRobin",
    };
    Choice {
        node: decision.node.clone(),
        evaluated: decision.evaluated,
        feasible: decision.feasible.len(),
        best_total,
        ties,
        draw: draw.to_owned(),
        nominated_node,
    }
}

fn preemptions(attempt: &Attempt, state: &CycleState, snapshot: &Snapshot) -> Preemptions {
    let Attempt { profile, pod, nominated, outcome, .. } = attempt;
    let Outcome::NotFound { error: FitError::NoFit { diagnosis, .. }, nomination, victims } = outcome else {
        return Preemptions::default();
    };
    let failed = FailedCycle { profile, state, pod, snapshot, diagnosis, nominated };
    let of_plugin = |plugin: &Arc<dyn scheduling_framework::PostFilter>| {
        let name = plugin.name();
        plugin.candidates(&failed).into_iter().map(move |candidate| PreemptionCandidate {
            plugin: name.to_owned(),
            node: candidate.node,
            victims: candidate.victims,
            violations: candidate.violations,
            worse_because: candidate.worse_because,
        })
    };
    let nominated_to = match nomination {
        Nomination::Node(node) => node.clone(),
        Nomination::Keep | Nomination::Clear => String::new(),
    };
    Preemptions {
        nominated_to,
        victims: victims.clone(),
        candidates: profile.post_filter.iter().flat_map(of_plugin).collect(),
    }
}
