//! DefaultPreemption: makes room for an important pod by removing less important ones from one node.
//!
//! Corresponds to pkg/scheduler/framework/preemption and plugins/defaultpreemption. This decides; `binding` evicts.

use crate::cache::NodeInfo;
use crate::cycle;
use crate::framework::{Diagnosis, FitError, Nomination, Plugin, PostFilter, PostFiltered, Rejection, Unfit};
use crate::pod_info::PodInfo;
use client::Lister;
use component_base::rng::Random;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::kinds::jiff::Timestamp;
use proto::meta::label_selector;
use proto::meta::selector::Selector;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct DefaultPreemption {
    pub budgets: Lister<PodDisruptionBudget>,
    /// Where the search for candidates begins.
    pub random: Random,
}

const NAME: &str = "DefaultPreemption";
/// At least so many candidates are found before one is chosen, or a tenth of the nodes if that is more.
const MIN_CANDIDATES: usize = 100;
const MIN_CANDIDATES_PERCENTAGE: usize = 10;

/// A node on which the pod would fit if these went.
struct Candidate {
    node: String,
    /// Most important first; never empty.
    victims: Vec<Arc<PodInfo>>,
    /// How many of them their disruption budgets protect.
    violations: usize,
}

/// A PodDisruptionBudget as far as it matters here.
struct Budget {
    object: Arc<PodDisruptionBudget>,
    selector: Selector,
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(&self, unfit: &Unfit<'_>) -> Result<PostFiltered, String> {
        if let Some(reason) = ineligible(unfit) {
            return Ok(PostFiltered { message: format!("preemption: {reason}"), ..PostFiltered::default() });
        }
        let (candidates, rejections) = self.candidates(unfit);
        if let Some(best) = choose(candidates) {
            let nomination = Nomination::Node(best.node);
            return Ok(PostFiltered { nomination, victims: best.victims, message: String::new() });
        }
        let others = Some(Rejection::unresolvable(NAME, "Preemption is not helpful for scheduling"));
        let diagnosis = Diagnosis { rejections, others, ..Diagnosis::default() };
        let error = FitError::no_fit(unfit.snapshot.nodes().len(), diagnosis);
        Ok(PostFiltered { nomination: Nomination::Clear, message: format!("preemption: {error}"), victims: Vec::new() })
    }
}

/// Why the pod may not push others out, if it may not.
fn ineligible(unfit: &Unfit<'_>) -> Option<&'static str> {
    let Unfit { pod, snapshot, diagnosis, .. } = unfit;
    if pod.spec().preemption_policy.as_deref() == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = snapshot.get(pod.nominated_node_name())?;
    if diagnosis.of(nominated.name()).is_some_and(|rejection| !rejection.resolvable) {
        return None; // nothing can come of that nomination any more
    }
    // Those it has pushed out already are on their way: wait for them.
    let leaving = nominated.pods.iter().any(|other| other.priority < pod.priority && is_leaving_for_others(&other.pod));
    leaving.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// The pod is terminating because it was preempted.
fn is_leaving_for_others(pod: &Pod) -> bool {
    let mut conditions = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    pod.is_deleting()
        && conditions
            .find(|condition| condition.type_ == "DisruptionTarget")
            .is_some_and(|c| c.status == "True" && c.reason.as_deref() == Some("PreemptionByScheduler"))
}

/// So many candidates are enough.
fn enough(nodes: usize) -> usize {
    (nodes * MIN_CANDIDATES_PERCENTAGE / 100).max(MIN_CANDIDATES).min(nodes)
}

impl DefaultPreemption {
    /// Candidates that violate no budget first, and why other nodes are none.
    fn candidates(&self, unfit: &Unfit<'_>) -> (Vec<Candidate>, BTreeMap<String, Rejection>) {
        let resolvable = |node: &&Arc<NodeInfo>| unfit.diagnosis.of(node.name()).is_some_and(|r| r.resolvable);
        let nodes: Vec<&Arc<NodeInfo>> = unfit.snapshot.nodes().iter().filter(resolvable).collect();
        let (mut harmless, mut violating, mut rejections) = (Vec::new(), Vec::new(), BTreeMap::new());
        if nodes.is_empty() {
            return (harmless, rejections);
        }
        let budgets = self.budgets();
        let offset = self.random.below(nodes.len());
        for node in nodes.iter().cycle().skip(offset).take(nodes.len()) {
            match victims_on(unfit, node, &budgets) {
                Ok(candidate) if candidate.violations == 0 => harmless.push(candidate),
                Ok(candidate) => violating.push(candidate),
                Err(rejection) => drop(rejections.insert(node.name().to_owned(), rejection)),
            }
            if !harmless.is_empty() && harmless.len() + violating.len() >= enough(nodes.len()) {
                break;
            }
        }
        harmless.append(&mut violating);
        (harmless, rejections)
    }

    /// All budgets; one without a selector, or with an empty one, protects nobody.
    fn budgets(&self) -> Vec<Budget> {
        let budget = |object: Arc<PodDisruptionBudget>| {
            let selector = object.spec.as_ref().and_then(|s| s.selector.as_ref());
            let selector = label_selector::from_typed(selector).ok().filter(|s| !s.is_empty())?;
            Some(Budget { object, selector })
        };
        self.budgets.list().into_iter().filter_map(budget).collect()
    }
}

/// Takes all less important pods away, then puts back as many as fit, the most important first.
fn victims_on(unfit: &Unfit<'_>, node: &NodeInfo, budgets: &[Budget]) -> Result<Candidate, Rejection> {
    let Unfit { profile, pod, nominated, .. } = unfit;
    let mut lesser: Vec<Arc<PodInfo>> = node.pods.iter().filter(|p| p.priority < pod.priority).cloned().collect();
    if lesser.is_empty() {
        return Err(Rejection::unresolvable(NAME, "No preemption victims found for incoming pod"));
    }
    let (mut left, mut state) = (node.clone(), unfit.state.clone());
    for other in &lesser {
        left.remove_pod(other.uid());
        profile.run_remove_pod(&mut state, pod, other, &left);
    }
    cycle::passes(profile, &state, pod, &left, nominated)?;

    lesser.sort_by_key(|other| importance(other));
    let (protected, unprotected) = split_by_budget(lesser, budgets);
    let (mut victims, mut violations) = (Vec::new(), 0);
    for (others, is_protected) in [(protected, true), (unprotected, false)] {
        for other in others {
            left.add_pod(other.clone());
            profile.run_add_pod(&mut state, pod, &other, &left);
            if cycle::passes(profile, &state, pod, &left, nominated).is_err() {
                left.remove_pod(other.uid());
                profile.run_remove_pod(&mut state, pod, &other, &left);
                violations += usize::from(is_protected);
                victims.push(other);
            }
        }
    }
    if victims.is_empty() {
        let reason = format!("expected at least one victim pod on node {:?}", node.name());
        return Err(Rejection::unschedulable(NAME, reason));
    }
    victims.sort_by_key(|victim| importance(victim));
    Ok(Candidate { node: node.name().to_owned(), victims, violations })
}

/// Pods whose removal a PodDisruptionBudget forbids, and those that may go.
fn split_by_budget(pods: Vec<Arc<PodInfo>>, budgets: &[Budget]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
    let status = |budget: &Budget| budget.object.status.clone().unwrap_or_default();
    let mut allowed: Vec<i32> = budgets.iter().map(|b| status(b).disruptions_allowed.unwrap_or(0)).collect();
    pods.into_iter().partition(|pod| {
        let mut is_protected = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let protects = budget.object.namespace() == pod.namespace()
                && !pod.labels().is_empty()
                && budget.selector.matches(pod.labels());
            // The eviction of those listed as disrupted is counted already.
            let is_counted = || status(budget).disrupted_pods.is_some_and(|pods| pods.contains_key(pod.pod.name()));
            if protects && !is_counted() {
                *allowed -= 1;
                is_protected |= *allowed < 0;
            }
        }
        is_protected
    })
}

/// Sorts the more important first: by priority, then whoever has run longer.
fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp, String) {
    (Reverse(pod.priority), start_time(pod), pod.key.clone())
}

fn start_time(pod: &PodInfo) -> Timestamp {
    pod.pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or(Timestamp::MAX, |t| t.0)
}

/// The fewest violated budgets; then the least important "most important victim"; then the least importance in all;
/// then the fewest victims; then the one whose most important victims started last; then the first.
fn choose(candidates: Vec<Candidate>) -> Option<Candidate> {
    let highest = |c: &Candidate| c.victims.first().map_or(i64::MIN, |v| i64::from(v.priority));
    // Priorities may be negative; shifted, so that more victims never make the sum smaller.
    let sum =
        |c: &Candidate| -> i64 { c.victims.iter().map(|v| i64::from(v.priority) + i64::from(i32::MAX) + 1).sum() };
    let earliest = |c: &Candidate| {
        let of_highest = c.victims.iter().filter(|v| i64::from(v.priority) == highest(c));
        of_highest.map(|v| start_time(v)).min().unwrap_or(Timestamp::MIN)
    };
    let cost = |c: &Candidate| (c.violations, highest(c), sum(c), c.victims.len(), Reverse(earliest(c)));
    candidates.into_iter().min_by_key(cost)
}
