//! Plans the status of a budget: how many disruptions it allows.
//!
//! Corresponds to trySync and updatePdbStatus in pkg/controller/disruption/disruption.go.

use super::observe::Observed;
use crate::intstr::{Round, scaled};
use crate::selector_text;
use client::{Action, Plan};
use controller_base::{actions, clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::IntOrString;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use proto::kinds::metav1::{Condition, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long after its eviction a pod may exist before it counts as healthy again.
const DELETION_TIMEOUT_S: i64 = 120;
const DISRUPTION_ALLOWED: &str = "DisruptionAllowed";

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let budget = &*observed.budget;
    let mut updated = budget.clone();
    // Events are recorded only when the status changes.
    let (mut events, mut plan) = (Vec::new(), Plan::default());
    if observed.pods.is_empty() {
        events.push(actions::normal(budget, "NoPods", "No matching pods found"));
    }
    match expectation(observed) {
        Ok((expected, desired_healthy)) => {
            events.extend(unmanaged(observed));
            let (disrupted, expired, recheck) = disrupted_pods(observed, now);
            for pod in expired {
                let message = format!("Pod was expected by PDB {} to be deleted but it wasn't", budget.key());
                events.push(actions::warning(&*pod, "NotDeleted", message));
            }
            plan.requeue_after = recheck;
            let healthy = observed.pods.iter().filter(|pod| is_healthy(pod, &disrupted)).count();
            updated.status = Some(status(budget, count(healthy), desired_healthy, expected, disrupted, now));
        }
        Err(error) => {
            let message = format!("Failed to calculate the number of expected pods: {error}");
            events.push(actions::warning(budget, "CalculateExpectedPodCountFailed", message));
            let status = updated.status.get_or_insert_default();
            status.disruptions_allowed = Some(0);
            let condition = condition("False", "SyncFailed", error, status.observed_generation, now);
            set_condition(status, condition);
        }
    }
    if !is_same(budget.status.as_ref(), updated.status.as_ref()) {
        plan.actions = events;
        plan.push(Action::update_status(&updated));
    }
    plan
}

/// Warns of pods without a controller: the expected number does not include them.
fn unmanaged(observed: &Observed) -> Option<Action> {
    let selector = observed.budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let message = format!(
        "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status \
         of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
         please set \".spec.minAvailable\" field of the PDB to an integer value.",
        selector.map_or("nil".to_owned(), selector_text::as_go_prints)
    );
    (!observed.scales.unmanaged.is_empty()).then(|| actions::warning(&*observed.budget, "UnmanagedPods", message))
}

fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Returns the expected number of pods, and how many of them have to be healthy.
fn expectation(observed: &Observed) -> Result<(i32, i32), String> {
    let spec = observed.budget.spec.clone().unwrap_or_default();
    let percentage = |value: &IntOrString, wanted: i32| {
        scaled(value, wanted, Round::Up).ok_or_else(|| "not a number or a percentage".to_owned())
    };
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(max_unavailable), _) => {
            let wanted = observed.scales.total()?;
            Ok((wanted, (wanted - percentage(max_unavailable, wanted)?).max(0)))
        }
        (None, Some(IntOrString::Int(min_available))) => Ok((count(observed.pods.len()), *min_available)),
        (None, Some(percent)) => {
            let wanted = observed.scales.total()?;
            Ok((wanted, percentage(percent, wanted)?))
        }
        (None, None) => Ok((0, 0)),
    }
}

type Disrupted = BTreeMap<String, Time>;

/// Returns the evicted pods that still exist, those whose deletion has timed out, and the delay until the next timeout.
fn disrupted_pods(observed: &Observed, now: Timestamp) -> (Disrupted, Vec<Arc<Pod>>, Option<Duration>) {
    let evicted = observed.budget.status.as_ref().and_then(|status| status.disrupted_pods.clone()).unwrap_or_default();
    let (mut disrupted, mut expired, mut recheck) = (Disrupted::new(), Vec::new(), None::<Duration>);
    for pod in observed.pods.iter().filter(|pod| !pod.is_deleting()) {
        let Some(time) = evicted.get(pod.name()) else { continue };
        let due = clock::after(time.0, DELETION_TIMEOUT_S);
        if due < now {
            expired.push(pod.clone());
        } else {
            let after = clock::until(due, now) + clock::TICK;
            recheck = Some(recheck.map_or(after, |earlier| earlier.min(after)));
            disrupted.insert(pod.name().to_owned(), time.clone());
        }
    }
    (disrupted, expired, recheck)
}

fn is_healthy(pod: &Pod, disrupted: &Disrupted) -> bool {
    !pod.is_deleting() && !disrupted.contains_key(pod.name()) && pod::is_ready(pod)
}

fn status(
    budget: &PodDisruptionBudget,
    current_healthy: i32,
    desired_healthy: i32,
    expected: i32,
    disrupted: Disrupted,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let allowed = if expected <= 0 { 0 } else { (current_healthy - desired_healthy).max(0) };
    let mut status = PodDisruptionBudgetStatus {
        conditions: budget.status.as_ref().and_then(|status| status.conditions.clone()),
        current_healthy: Some(current_healthy),
        desired_healthy: Some(desired_healthy),
        disrupted_pods: (!disrupted.is_empty()).then_some(disrupted),
        disruptions_allowed: Some(allowed),
        expected_pods: Some(expected),
        observed_generation: budget.metadata.generation,
    };
    let (value, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    set_condition(&mut status, condition(value, reason, String::new(), budget.metadata.generation, now));
    status
}

fn condition(status: &str, reason: &str, message: String, generation: Option<i64>, now: Timestamp) -> Condition {
    Condition {
        type_: DISRUPTION_ALLOWED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: clock::stamp(now),
    }
}

fn set_condition(status: &mut PodDisruptionBudgetStatus, mut condition: Condition) {
    let conditions = status.conditions.get_or_insert_default();
    match conditions.iter_mut().find(|present| present.type_ == condition.type_) {
        None => conditions.push(condition),
        Some(present) => {
            if present.status == condition.status {
                condition.last_transition_time = present.last_transition_time.clone();
            }
            *present = condition;
        }
    }
}

/// Compares two statuses. An absent map of disrupted pods equals an empty one.
fn is_same(one: Option<&PodDisruptionBudgetStatus>, other: Option<&PodDisruptionBudgetStatus>) -> bool {
    let normal = |status: Option<&PodDisruptionBudgetStatus>| {
        let mut status = status.cloned().unwrap_or_default();
        status.disrupted_pods = status.disrupted_pods.filter(|pods| !pods.is_empty());
        status
    };
    one.is_some() == other.is_some() && normal(one) == normal(other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disruption::observe::Scales;
    use controller_base::fixture;
    use proto::kinds::metav1::{LabelSelector, LabelSelectorRequirement};

    fn observed(
        min_available: Option<&str>,
        max_unavailable: Option<&str>,
        wanted: i32,
        healthy: usize,
        broken: usize,
    ) -> Observed {
        let mut budget = PodDisruptionBudget { metadata: fixture::meta("web"), ..PodDisruptionBudget::default() };
        let spec = budget.spec.get_or_insert_default();
        spec.min_available = min_available.map(fixture::int_or_percent);
        spec.max_unavailable = max_unavailable.map(fixture::int_or_percent);
        let pod = |i: usize| {
            let mut pod = fixture::pod(&format!("web-{i}"));
            if i < healthy {
                fixture::set_ready(&mut pod, fixture::at(0));
            }
            Arc::new(pod)
        };
        Observed {
            budget: Arc::new(budget),
            pods: (0..healthy + broken).map(pod).collect(),
            scales: Scales::of(Ok(wanted)),
        }
    }

    fn written(plan: &Plan) -> PodDisruptionBudgetStatus {
        let last = plan.actions.iter().rev().find_map(|action| match action {
            Action::UpdateStatus { object, .. } => PodDisruptionBudget::decode_value(object.clone()).unwrap().status,
            _ => None,
        });
        last.unwrap()
    }

    #[test]
    fn budgets_allow_the_surplus() {
        let cases = [
            // minAvailable, maxUnavailable, wanted, healthy, broken => expected, desired, allowed
            (Some("2"), None, 3, 3, 0, (3, 2, 1)),
            (Some("2"), None, 3, 2, 1, (3, 2, 0)),
            (Some("3"), None, 3, 3, 0, (3, 3, 0)),
            (Some("0"), None, 3, 3, 0, (3, 0, 3)),
            (Some("50%"), None, 3, 3, 0, (3, 2, 1)),
            (Some("50%"), None, 10, 6, 0, (10, 5, 1)),
            (None, Some("1"), 3, 3, 0, (3, 2, 1)),
            (None, Some("1"), 3, 2, 0, (3, 2, 0)),
            (None, Some("1"), 4, 2, 1, (4, 3, 0)),
            (None, Some("30%"), 10, 10, 0, (10, 7, 3)),
            (None, Some("25%"), 3, 3, 0, (3, 2, 1)),
            (None, Some("5"), 3, 3, 0, (3, 0, 3)),
            (Some("0"), None, 0, 0, 0, (0, 0, 0)),
            (None, None, 3, 3, 0, (0, 0, 0)),
        ];
        for (min, max, wanted, healthy, broken, expected) in cases {
            let status = written(&plan(&observed(min, max, wanted, healthy, broken), fixture::at(1)));
            let got =
                (status.expected_pods.unwrap(), status.desired_healthy.unwrap(), status.disruptions_allowed.unwrap());
            assert_eq!(got, expected, "{min:?} {max:?} wanted {wanted}, healthy {healthy}, broken {broken}");
            let reason = if expected.2 > 0 { "SufficientPods" } else { "InsufficientPods" };
            assert_eq!(status.conditions.unwrap()[0].reason, reason);
        }
    }

    #[test]
    fn granted_evictions_do_not_count_twice() {
        let mut observed = observed(Some("1"), None, 3, 3, 0);
        let evicted = BTreeMap::from([("web-0".to_owned(), fixture::time(0)), ("gone".to_owned(), fixture::time(0))]);
        Arc::get_mut(&mut observed.budget).unwrap().status.get_or_insert_default().disrupted_pods = Some(evicted);
        let soon = plan(&observed, fixture::at(10));
        let status = written(&soon);
        assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(2), Some(1)));
        assert_eq!(status.disrupted_pods.unwrap().into_keys().collect::<Vec<_>>(), ["web-0"]);
        assert_eq!(soon.requeue_after, Some(Duration::from_secs(111)));
        let late = plan(&observed, fixture::at(121));
        assert_eq!(written(&late).current_healthy, Some(3), "its deletion has timed out: it counts again");
        assert!(late.to_string().contains("NotDeleted Pod default/web-0"), "{late}");
    }

    #[test]
    fn nothing_is_allowed_while_the_wanted_number_is_unknown() {
        let mut observed = observed(None, Some("1"), 0, 3, 0);
        observed.scales = Scales::of(Err("jobs.batch does not implement the scale subresource"));
        let failed = plan(&observed, fixture::at(1));
        let status = written(&failed);
        assert_eq!(
            (status.disruptions_allowed, status.conditions.clone().unwrap()[0].reason.as_str()),
            (Some(0), "SyncFailed")
        );
        Arc::get_mut(&mut observed.budget).unwrap().status = Some(status);
        assert_eq!(plan(&observed, fixture::at(9)).to_string(), "", "written once");
    }

    #[test]
    fn pods_without_a_controller_are_reported() {
        let mut observed = observed(None, Some("1"), 3, 3, 0);
        let requirement = LabelSelectorRequirement {
            key: "tier".to_owned(),
            operator: "In".to_owned(),
            values: Some(vec!["a".to_owned(), "b".to_owned()]),
        };
        let selector = LabelSelector {
            match_labels: Some(fixture::labels(&[("app", "web")])),
            match_expressions: Some(vec![requirement]),
        };
        let spec = Arc::get_mut(&mut observed.budget).unwrap().spec.as_mut().unwrap();
        spec.selector = Some(selector);
        assert!(!plan(&observed, fixture::at(1)).to_string().contains("UnmanagedPods"));
        observed.scales.unmanaged = vec!["stray".to_owned()];
        let text = plan(&observed, fixture::at(1)).to_string();
        let selector = "(selector: &LabelSelector{MatchLabels:map[string]string{app: web,},MatchExpressions:\
                        []LabelSelectorRequirement{LabelSelectorRequirement{Key:tier,Operator:In,Values:[a b],},},})";
        assert!(text.contains("Warning UnmanagedPods") && text.contains(selector), "{text}");
    }

    #[test]
    fn an_unchanged_status_is_not_written() {
        let mut observed = observed(Some("1"), None, 3, 3, 0);
        let status = written(&plan(&observed, fixture::at(1)));
        Arc::get_mut(&mut observed.budget).unwrap().status = Some(status);
        assert_eq!(plan(&observed, fixture::at(9)).to_string(), "");
    }
}
