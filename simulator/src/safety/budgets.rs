//! The rule that evictions never exceed a PodDisruptionBudget.
//!
//! An eviction is granted when the budget's status names the pod in `disruptedPods`. The budget allowed a disruption before,
//! and allows one less then. With the disrupted pods gone, `minAvailable` pods are left. The controller may not know yet of pods
//! that something else disturbed just before, so these count as left: a budget is no promise about them. A ready pod that is
//! evicted is one that its budget has counted.

use super::fields::{DisruptionBudget, Pod};
use super::{Rule, RuleViolation, WriteContext, read};
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

const PODS: &str = "/registry/pods/";
const BUDGETS: &str = "/registry/poddisruptionbudgets/";
/// Time in which the controller notices a pod that something else disturbed.
const NOTICED: SignedDuration = SignedDuration::from_mins(2);
/// Longest time of a request. An eviction that began before there was a budget ends within it.
const REQUEST: SignedDuration = SignedDuration::from_mins(1);

#[derive(Default)]
pub struct Budgets {
    budgets: BTreeMap<String, Budget>,
    pods: BTreeMap<String, PodState>,
    /// Pods that something other than an eviction disturbed, with their labels and the time.
    disturbed: BTreeMap<String, (BTreeMap<String, String>, Timestamp)>,
}

#[derive(Clone)]
struct Budget {
    selector: BTreeMap<String, String>,
    /// `None` for a share, or if the budget limits the unavailable pods.
    min_available: Option<i64>,
    allowed: i64,
    /// Keys of the pods whose evictions the budget has counted.
    disrupted: BTreeSet<String>,
    since: Timestamp,
}

struct PodState {
    labels: BTreeMap<String, String>,
    is_healthy: bool,
    is_evicted: bool,
}

impl Budget {
    /// Reads a budget. Its selector has labels alone in all scenarios.
    fn of(key: &str, budget: DisruptionBudget, since: Timestamp) -> Self {
        let DisruptionBudget { spec, status } = budget;
        let namespace = key.rsplit('/').nth(1).unwrap_or_default();
        Self {
            selector: spec.selector.match_labels,
            min_available: spec.min_available.as_i64(),
            allowed: status.disruptions_allowed,
            disrupted: status.disrupted_pods.keys().map(|name| format!("{PODS}{namespace}/{name}")).collect(),
            since,
        }
    }

    fn covers(&self, own: &str, pod: &str, labels: &BTreeMap<String, String>) -> bool {
        own.rsplit('/').nth(1) == pod.rsplit('/').nth(1)
            && self.selector.iter().all(|(name, value)| labels.get(name) == Some(value))
    }
}

impl Budgets {
    fn check_budget(&mut self, key: &str, value: Option<&[u8]>, at: Timestamp) -> Result<(), RuleViolation> {
        let before = self.budgets.remove(key);
        let Some(budget) = read::<DisruptionBudget>(key, value)? else { return Ok(()) };
        let budget = Budget::of(key, budget, before.as_ref().map_or(at, |before| before.since));
        self.budgets.insert(key.to_owned(), budget.clone());
        let Some(before) = before else { return Ok(()) };
        let granted: Vec<&String> = budget.disrupted.difference(&before.disrupted).collect();
        let Some(pod) = granted.first() else { return Ok(()) };
        let (had, left) = (before.allowed, budget.allowed);
        if usize::try_from(had - left).ok() != Some(granted.len()) || left < 0 {
            let what = format!("{key} grants the eviction of {pod}, and goes from {had} disruptions to {left}");
            return Err(RuleViolation::about(what, [(*pod).clone()]));
        }
        self.check_left(key, &budget, pod, at)
    }

    /// Checks that enough healthy pods are left without the disrupted ones.
    fn check_left(&self, key: &str, budget: &Budget, pod: &str, at: Timestamp) -> Result<(), RuleViolation> {
        let Some(least) = budget.min_available else { return Ok(()) };
        let counts = |pod: &String, labels: &BTreeMap<String, String>| {
            budget.covers(key, pod, labels) && !budget.disrupted.contains(pod)
        };
        let healthy = self.pods.iter().filter(|(pod, state)| state.is_healthy && counts(pod, &state.labels)).count();
        let disturbed = self.disturbed.iter().filter(|(pod, (labels, since))| {
            at.duration_since(*since) < NOTICED
                && counts(pod, labels)
                && self.pods.get(*pod).is_none_or(|pod| !pod.is_healthy)
        });
        let left = i64::try_from(healthy + disturbed.count()).unwrap_or(i64::MAX);
        if left < least {
            let what =
                format!("{key} grants the eviction of {pod}, and {left} healthy pods are left, where {least} are kept");
            return Err(RuleViolation::about(what, [pod.to_owned()]));
        }
        Ok(())
    }

    fn check_pod(&mut self, key: &str, value: Option<&[u8]>, at: Timestamp) -> Result<(), RuleViolation> {
        let before = self.pods.remove(key);
        let pod = read::<Pod>(key, value)?;
        let is_healthy = pod.as_ref().is_some_and(|pod| pod.has_condition("Ready") && !pod.metadata.is_deleting());
        let is_evicted = pod.as_ref().is_some_and(|pod| {
            let mut conditions = pod.status.conditions.iter();
            conditions.any(|condition| condition.status == "True" && condition.reason == "EvictionByEvictionAPI")
        });
        if let Some(pod) = pod {
            self.pods.insert(key.to_owned(), PodState { labels: pod.metadata.labels, is_healthy, is_evicted });
        }
        let Some(before) = before.filter(|before| before.is_healthy) else { return Ok(()) };
        let covering = self.budgets.iter().filter(|(own, budget)| budget.covers(own, key, &before.labels));
        let is_counted = covering.clone().any(|(_, budget)| budget.disrupted.contains(key));
        if !is_healthy && !is_counted {
            self.disturbed.insert(key.to_owned(), (before.labels.clone(), at));
        }
        let mut owed = covering.filter(|(_, budget)| at.duration_since(budget.since) > REQUEST);
        match owed.next() {
            Some((budget, _)) if is_evicted && !before.is_evicted && !is_counted => {
                let what = format!("{key} is evicted, and {budget} has not counted it");
                Err(RuleViolation::about(what, [budget.clone()]))
            }
            _ => Ok(()),
        }
    }
}

impl Rule for Budgets {
    fn prefixes(&self) -> &'static [&'static str] {
        &[PODS, BUDGETS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(BUDGETS) {
            self.check_budget(key, value, context.at)
        } else {
            self.check_pod(key, value, context.at)
        }
    }
}
