//! DefaultPreemption: makes room for an important pod by removing less important ones from one node.
//!
//! Corresponds to pkg/scheduler/framework/preemption and plugins/defaultpreemption. This decides; `binding` evicts.

use crate::cache::{NodeInfo, Snapshot};
use crate::cycle;
use crate::framework::diagnosis::Histogram;
use crate::framework::{Diagnosis, Nominated, Plugin, PostFilter, PostFiltered, Profile, Rejection};
use crate::pod_info::PodInfo;
use client::Lister;
use proto::Kind;
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::kinds::jiff::Timestamp;
use proto::meta::label_selector;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct DefaultPreemption {
    pub budgets: Lister<PodDisruptionBudget>,
}

const NAME: &str = "DefaultPreemption";
/// At least so many candidates are found before one is chosen, or a tenth of the nodes if that is more.
const MIN_CANDIDATES: usize = 100;

/// A node on which the pod would fit if these went.
struct Candidate {
    node: String,
    /// Most important first.
    victims: Vec<Arc<PodInfo>>,
    /// How many of them their disruption budgets protect.
    violations: usize,
}

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
    }
}

impl PostFilter for DefaultPreemption {
    fn post_filter(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        snapshot: &Snapshot,
        diagnosis: &Diagnosis,
        nominated: &Nominated,
    ) -> PostFiltered {
        if let Some(reason) = ineligible(pod, snapshot) {
            return PostFiltered { message: format!("preemption: {reason}"), ..PostFiltered::default() };
        }
        let enough = MIN_CANDIDATES.max(snapshot.nodes().len() / 10);
        let mut candidates = Vec::new();
        let mut histogram = Histogram::default();
        for node in snapshot.nodes() {
            if diagnosis.of(node.name()).is_some_and(|rejection| !rejection.resolvable) {
                histogram.add_reason("Preemption is not helpful for scheduling", 1);
                continue;
            }
            if candidates.len() >= enough {
                break;
            }
            match self.victims_on(profile, pod, node, snapshot, nominated) {
                Ok(candidate) => candidates.push(candidate),
                Err(rejection) => histogram.add(&rejection, 1),
            }
        }
        match choose(candidates) {
            Some(best) => {
                PostFiltered { nominated_node: Some(best.node), victims: best.victims, message: String::new() }
            }
            None => {
                let message = format!("preemption: 0/{} nodes are available: {histogram}", snapshot.nodes().len());
                PostFiltered { message, ..PostFiltered::default() }
            }
        }
    }
}

/// Why the pod may not push others out, if it may not.
fn ineligible(pod: &PodInfo, snapshot: &Snapshot) -> Option<&'static str> {
    if pod.spec().preemption_policy.as_deref() == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never");
    }
    // Those it has pushed out already are on their way: wait for them.
    let nominated = snapshot.get(pod.nominated_node_name())?;
    let leaving = nominated.pods.iter().any(|other| other.priority < pod.priority && other.pod.is_deleting());
    leaving.then_some("not eligible due to a terminating pod on the nominated node")
}

impl DefaultPreemption {
    /// Takes all less important pods away, then puts back as many as fit, the most important first.
    fn victims_on(
        &self,
        profile: &Profile,
        pod: &PodInfo,
        node: &Arc<NodeInfo>,
        snapshot: &Snapshot,
        nominated: &Nominated,
    ) -> Result<Candidate, Rejection> {
        let mut lesser: Vec<Arc<PodInfo>> = node.pods.iter().filter(|p| p.priority < pod.priority).cloned().collect();
        if lesser.is_empty() {
            return Err(Rejection::unresolvable(NAME, "No preemption victims found for incoming pod"));
        }
        let mut left = NodeInfo::clone(node);
        for other in &lesser {
            left.remove_pod(other.uid());
        }
        let fits = |left: &NodeInfo| cycle::would_fit(profile, pod, left, snapshot, nominated);
        fits(&left)?;

        lesser.sort_by_key(|other| importance(other));
        let (protected, unprotected) = self.split_by_budget(&lesser);
        let (mut victims, mut violations) = (Vec::new(), 0);
        for (others, is_protected) in [(protected, true), (unprotected, false)] {
            for other in others {
                left.add_pod(other.clone());
                if fits(&left).is_err() {
                    left.remove_pod(other.uid());
                    violations += usize::from(is_protected);
                    victims.push(other);
                }
            }
        }
        victims.sort_by_key(|victim| importance(victim));
        Ok(Candidate { node: node.name().to_owned(), victims, violations })
    }

    /// Pods whose removal a PodDisruptionBudget forbids, and those that may go.
    fn split_by_budget(&self, pods: &[Arc<PodInfo>]) -> (Vec<Arc<PodInfo>>, Vec<Arc<PodInfo>>) {
        let mut allowed: BTreeMap<String, i32> = BTreeMap::new();
        pods.iter().cloned().partition(|pod| {
            let mut is_protected = false;
            for budget in self.budgets.in_namespace(pod.namespace()) {
                let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
                let matches =
                    label_selector::from_typed(selector).is_ok_and(|s| !s.is_empty() && s.matches(pod.labels()));
                let status = budget.status.as_ref();
                let disrupted =
                    status.and_then(|s| s.disrupted_pods.as_ref()).is_some_and(|d| d.contains_key(pod.pod.name()));
                if matches && !disrupted {
                    let left =
                        allowed.entry(budget.key()).or_insert(status.and_then(|s| s.disruptions_allowed).unwrap_or(0));
                    *left -= 1;
                    is_protected |= *left < 0;
                }
            }
            is_protected
        })
    }
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
