//! `Candidate`, a node that preemption may choose, and the order among candidates.
//!
//! Corresponds to Candidate and pickOneNodeForPreemption of pkg/scheduler/framework/preemption.

use crate::pod_info::PodInfo;
use proto::kinds::jiff::Timestamp;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

/// A node on which the pod would fit without the victims.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub node: String,
    /// Victims, the highest priority first; never empty.
    pub victims: Vec<Arc<PodInfo>>,
    /// Number of victims that a disruption budget protects.
    pub violations: usize,
    /// Computed once, because a candidate that is kept is compared in many cycles.
    cost: Cost,
}

impl Candidate {
    pub fn new(node: String, victims: Vec<Arc<PodInfo>>, violations: usize) -> Self {
        let cost = cost(&victims, violations);
        Self { node, victims, violations, cost }
    }

    pub fn cost(&self) -> &Cost {
        &self.cost
    }
}

/// Returns a sort key: the highest priority first, then the earliest start.
pub fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp, String) {
    (Reverse(pod.priority), start_time(pod), pod.key.clone())
}

/// Orders pods as `importance` does, without a copy of the key.
pub fn by_importance(a: &PodInfo, b: &PodInfo) -> Ordering {
    let key = |pod: &PodInfo| (Reverse(pod.priority), start_time(pod));
    key(a).cmp(&key(b)).then_with(|| a.key.cmp(&b.key))
}

fn start_time(pod: &PodInfo) -> Timestamp {
    pod.pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or(Timestamp::MAX, |t| t.0)
}

/// What a candidate costs. The first difference in this order decides:
/// 1. fewer violated budgets;
/// 2. a lower highest priority of the victims;
/// 3. a lower sum of the victims' priorities;
/// 4. fewer victims;
/// 5. a later start of the earliest victim of the highest priority;
/// 6. the order of the search.
pub type Cost = (usize, i64, i64, usize, Reverse<Timestamp>);

fn cost(victims: &[Arc<PodInfo>], violations: usize) -> Cost {
    let highest = victims.first().map_or(i64::MIN, |victim| i64::from(victim.priority));
    // Priorities may be negative. The shift makes them positive, so that the sum grows with every victim.
    let sum = victims.iter().map(|victim| i64::from(victim.priority) + i64::from(i32::MAX) + 1).sum();
    let of_highest = victims.iter().filter(|victim| i64::from(victim.priority) == highest);
    let earliest = of_highest.map(|victim| start_time(victim)).min().unwrap_or(Timestamp::MIN);
    (violations, highest, sum, victims.len(), Reverse(earliest))
}

/// Returns the best candidate.
pub fn choose(candidates: &[Arc<Candidate>]) -> Option<&Arc<Candidate>> {
    candidates.iter().min_by_key(|candidate| *candidate.cost())
}

/// Returns the first rule by which `better` wins.
pub fn difference(better: &Candidate, other: &Candidate) -> &'static str {
    let (a, b) = (better.cost(), other.cost());
    match () {
        () if a.0 != b.0 => "more disruption budgets would be violated",
        () if a.1 != b.1 => "a victim has a higher priority",
        () if a.2 != b.2 => "the sum of the victims' priorities is higher",
        () if a.3 != b.3 => "there are more victims",
        () if a.4 != b.4 => "the most important victim has run longer",
        () => "equal; the search came to it later",
    }
}
