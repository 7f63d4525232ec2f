//! `Candidate`, a node that preemption may choose, and the order among candidates.
//!
//! Corresponds to Candidate and pickOneNodeForPreemption of pkg/scheduler/framework/preemption.

use crate::pod_info::PodInfo;
use proto::kinds::jiff::Timestamp;
use std::cmp::Reverse;
use std::sync::Arc;

/// A node on which the pod would fit without the victims.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub node: String,
    /// Victims, the highest priority first; never empty.
    pub victims: Vec<Arc<PodInfo>>,
    /// Number of victims that a disruption budget protects.
    pub violations: usize,
}

/// Returns a sort key: the highest priority first, then the earliest start.
pub fn importance(pod: &PodInfo) -> (Reverse<i32>, Timestamp, String) {
    (Reverse(pod.priority), start_time(pod), pod.key.clone())
}

fn start_time(pod: &PodInfo) -> Timestamp {
    pod.pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or(Timestamp::MAX, |t| t.0)
}

/// Returns the best candidate. The first difference in this order decides:
/// 1. fewer violated budgets;
/// 2. a lower highest priority of the victims;
/// 3. a lower sum of the victims' priorities;
/// 4. fewer victims;
/// 5. a later start of the earliest victim of the highest priority;
/// 6. the order of the search.
pub fn choose(candidates: &[Candidate]) -> Option<&Candidate> {
    let highest = |c: &Candidate| c.victims.first().map_or(i64::MIN, |v| i64::from(v.priority));
    // Priorities may be negative. The shift makes them positive, so that the sum grows with every victim.
    let sum =
        |c: &Candidate| -> i64 { c.victims.iter().map(|v| i64::from(v.priority) + i64::from(i32::MAX) + 1).sum() };
    let earliest = |c: &Candidate| {
        let of_highest = c.victims.iter().filter(|v| i64::from(v.priority) == highest(c));
        of_highest.map(|v| start_time(v)).min().unwrap_or(Timestamp::MIN)
    };
    let cost = |c: &Candidate| (c.violations, highest(c), sum(c), c.victims.len(), Reverse(earliest(c)));
    candidates.iter().min_by_key(|candidate| cost(candidate))
}
