//! DefaultPreemption chooses a node on which a pod would fit without pods of lower priority.
//!
//! Corresponds to pkg/scheduler/framework/preemption and plugins/defaultpreemption. The plugin chooses the victims, and
//! `binding` evicts them.

use client::Lister;
use component_base::rng::Random;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::meta::label_selector;
use proto::meta::selector::Selector;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::configuration::args::DefaultPreemptionArgs;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::preemption::{self, Candidate, by_importance};
use scheduling_framework::simulation::Simulation;
use scheduling_framework::simulation_basis::Bases;
use scheduling_framework::{
    Diagnosis, FailedCycle, FitError, Nomination, Plugin, PostFilter, PostFilterResult, Preemption, Rejection,
    Rejections,
};
use std::sync::Arc;

pub struct DefaultPreemption {
    pub args: DefaultPreemptionArgs,
    pub budgets: Lister<PodDisruptionBudget>,
    /// Chooses the node at which the search for candidates begins.
    pub random: Random,
}

const NAME: &str = "DefaultPreemption";

/// A PodDisruptionBudget with its parsed selector.
pub(crate) struct Budget {
    object: Arc<PodDisruptionBudget>,
    selector: Selector,
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, failed: &FailedCycle<'_>) -> Result<PostFilterResult, String> {
        if let Some(reason) = ineligible(failed) {
            return Ok(PostFilterResult { message: format!("preemption: {reason}"), ..PostFilterResult::default() });
        }
        let (candidates, rejections) = self.search(failed, |nodes| self.random.below(nodes));
        if let Some(best) = preemption::choose(&candidates) {
            let (nomination, victims) = (Nomination::Node(best.node.clone()), best.victims.clone());
            return Ok(PostFilterResult { nomination, victims, candidates, ..PostFilterResult::default() });
        }
        let others = Some(Rejection::unresolvable(NAME, "Preemption is not helpful for scheduling"));
        let diagnosis = Diagnosis { rejections, others, ..Diagnosis::default() };
        let error = FitError::no_fit(failed.snapshot.nodes().len(), diagnosis);
        Ok(PostFilterResult {
            nomination: Nomination::Clear,
            message: format!("preemption: {error}"),
            ..PostFilterResult::default()
        })
    }

    /// Returns the candidates in the order of `cost`. The search begins at the first node, so that no number is drawn.
    fn candidates(&self, failed: &FailedCycle<'_>) -> Vec<Preemption> {
        if ineligible(failed).is_some() {
            return Vec::new();
        }
        let (mut found, _) = self.search(failed, |_| 0);
        found.sort_by_key(|candidate| *candidate.cost());
        let mut before: Option<Arc<Candidate>> = None;
        let mut listed = Vec::new();
        for candidate in found {
            listed.push(Preemption {
                node: candidate.node.clone(),
                victims: candidate.victims.iter().map(|victim| victim.key.clone()).collect(),
                violations: candidate.violations,
                worse_because: before
                    .as_ref()
                    .map_or("", |better| preemption::difference(better, &candidate))
                    .to_owned(),
            });
            before = Some(candidate);
        }
        listed
    }
}

/// Returns the reason for which the pod may not preempt others, if there is one.
fn ineligible(failed: &FailedCycle<'_>) -> Option<&'static str> {
    let FailedCycle { pod, snapshot, diagnosis, .. } = failed;
    if pod.spec().preemption_policy.as_deref() == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let number = snapshot.index_of(pod.nominated_node_name())?;
    let nominated = &snapshot.nodes()[number];
    if diagnosis.of(number).is_some_and(|rejection| !rejection.resolvable) {
        return None; // the pod cannot run on its nominated node any more
    }
    // The victims of an earlier preemption are still terminating.
    let is_waiting = nominated.pods.iter().any(|other| other.priority < pod.priority && is_preempted(&other.pod));
    is_waiting.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Returns true if the pod is terminating because it was preempted.
fn is_preempted(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    pod.is_deleting()
        && conditions
            .find(|condition| condition.type_ == "DisruptionTarget")
            .is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some("PreemptionByScheduler"))
}

impl DefaultPreemption {
    /// Returns the number of candidates after which the search ends.
    fn candidates_to_find(&self, nodes: usize) -> usize {
        let limit = |number: i32| usize::try_from(number).unwrap_or(0);
        let part = nodes * limit(self.args.min_candidate_nodes_percentage) / 100;
        part.max(limit(self.args.min_candidate_nodes_absolute)).min(nodes)
    }

    /// Returns the candidates, those without violated budgets first, and the rejections of other nodes. `start` chooses
    /// the first of a number of nodes.
    fn search(
        &self,
        failed: &FailedCycle<'_>,
        start: impl FnOnce(usize) -> usize,
    ) -> (Vec<Arc<Candidate>>, Rejections) {
        let FailedCycle { profile, pod, snapshot, diagnosis, nominated, .. } = failed;
        let nodes = diagnosis.resolvable(snapshot.nodes().len());
        let (mut non_violating, mut violating, mut rejections) = (Vec::new(), Vec::new(), Rejections::default());
        if nodes.is_empty() {
            return (non_violating, rejections);
        }
        let budgets = self.budgets();
        let no_victims = Arc::new(Rejection::unresolvable(NAME, "No preemption victims found for incoming pod"));
        let nominations = nominated.versions(snapshot);
        let own_nominated = nominated.node_of(pod.uid()).and_then(|name| snapshot.index_of(name));
        let mut kept = profile.kept.take(pod);
        let kept_candidates = kept.candidates();
        let (simulation, bases, mut basis) = (Simulation::new(failed), Bases::of(failed), Vec::new());
        if let Some(bases) = &bases {
            kept_candidates.prepare(failed, budgets.iter().map(|budget| budget.object.clone()).collect(), bases);
        }
        let offset = start(nodes.len()).min(nodes.len());
        for node in nodes[offset..].iter().chain(&nodes[..offset]).copied() {
            if !snapshot.has_lower_priority(node, pod.priority) {
                rejections.push(node, &no_victims);
                continue;
            }
            let info = &snapshot.nodes()[node];
            let simulate = || victims_on(&simulation, pod, info, &budgets).map(Arc::new).map_err(Arc::new);
            let simulated = match bases.as_ref().filter(|_| own_nominated != Some(node)) {
                Some(bases) => {
                    let version = nominations.get(&node).copied();
                    bases.read(node, version.is_none(), &mut basis);
                    kept_candidates.of(failed, node, version.unwrap_or(0), &basis, simulate)
                }
                None => simulate(),
            };
            match simulated {
                Ok(candidate) if candidate.violations == 0 => non_violating.push(candidate),
                Ok(candidate) => violating.push(candidate),
                Err(rejection) => rejections.push(node, &rejection),
            }
            if !non_violating.is_empty()
                && non_violating.len() + violating.len() >= self.candidates_to_find(nodes.len())
            {
                break;
            }
        }
        profile.kept.put_back(kept, snapshot.nodes().len());
        non_violating.append(&mut violating);
        (non_violating, rejections)
    }

    /// Returns the budgets with a non-empty selector. The others protect no pod.
    pub(crate) fn budgets(&self) -> Vec<Budget> {
        let budget = |object: Arc<PodDisruptionBudget>| {
            let selector = object.spec.as_ref().and_then(|s| s.selector.as_ref());
            let selector = label_selector::from_typed(selector).ok().filter(|s| !s.is_empty())?;
            Some(Budget { object, selector })
        };
        self.budgets.list().into_iter().filter_map(budget).collect()
    }
}

/// Removes all pods of lower priority from a copy of the node. Then adds them again while the pod fits, those of the
/// highest priority first. The rest are the victims.
fn victims_on(
    simulation: &Simulation<'_>,
    pod: &PodInfo,
    node: &NodeInfo,
    budgets: &[Budget],
) -> Result<Candidate, Rejection> {
    let mut lower: Vec<Arc<PodInfo>> = node.pods.iter().filter(|p| p.priority < pod.priority).cloned().collect();
    let mut simulated = simulation.begin(node);
    lower.iter().for_each(|other| simulated.remove(other));
    simulated.judge()?;

    lower.sort_by(|a, b| by_importance(a, b));
    let (protected, unprotected) = split_by_budget(lower, budgets);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (others, is_protected) in [(protected, true), (unprotected, false)] {
        for other in others {
            simulated.add(&other);
            if !simulated.still_fits() {
                simulated.remove(&other);
                violations += usize::from(is_protected);
                victims.push(other);
            }
        }
    }
    if victims.is_empty() {
        let reason = format!("expected at least one victim pod on node {:?}", node.name());
        return Err(Rejection::unschedulable(NAME, reason));
    }
    victims.sort_by(|a, b| by_importance(a, b));
    Ok(Candidate::new(node.name().to_owned(), victims, violations))
}

/// Splits pods into those whose eviction violates a budget, and the others.
pub(crate) fn split_by_budget(pods: Vec<Arc<PodInfo>>, budgets: &[Budget]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let allowed = |budget: &Budget| budget.object.status.as_ref()?.disruptions_allowed;
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| allowed(budget).unwrap_or(0)).collect();
    pods.into_iter().partition(|pod| {
        let mut is_protected = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let protects = budget.object.namespace() == pod.namespace()
                && !pod.labels().is_empty()
                && budget.selector.matches(pod.labels());
            // `disruptionsAllowed` already includes the pods that are listed as disrupted.
            let disrupted = budget.object.status.as_ref().and_then(|it| it.disrupted_pods.as_ref());
            if protects && !disrupted.is_some_and(|pods| pods.contains_key(pod.pod.name())) {
                *allowed -= 1;
                is_protected |= *allowed < 0;
            }
        }
        is_protected
    })
}
