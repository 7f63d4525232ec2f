//! Eviction: a deletion that the PodDisruptionBudget of the pod may forbid.
//!
//! Corresponds to EvictionREST of pkg/registry/core/pod/storage. The decision is pure. The caller carries it out: it
//! writes the budget first, then adds the condition to the pod, and then deletes the pod.

use jiff::Timestamp;
use proto::Status;
use proto::meta::label_selector;
use proto::meta::status::Cause;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Limit of the evictions that the budget's controller has not confirmed yet; with more, an eviction is refused.
const MAX_DISRUPTED_PODS: usize = 2000;

/// The decision about an eviction.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// The pod may be deleted even if it changes meanwhile: it is finished or terminating, or no budget covers it.
    Delete,
    /// The pod may be deleted only if it has not changed, because it is not ready. `budget` covers it and would decide
    /// if it were ready; `None` for a pending pod, for which no budget was read.
    DeleteUnchanged {
        budget: Option<String>,
    },
    /// The pod may be deleted after a disruption is taken from this budget.
    DeleteAfter {
        budget: String,
    },
    Refused(Box<Status>),
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Returns whether a budget of the pod's namespace covers the pod.
pub fn covers(budget: &Value, pod: &Value) -> bool {
    let labels: BTreeMap<String, String> = pod
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    label_selector::from_value(budget.pointer("/spec/selector")).is_ok_and(|selector| selector.matches(&labels))
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Decides about pods whose eviction is no disruption: finished, terminating and pending ones. `None` for all others, about
/// which `decide` decides.
pub fn decide_without_budgets(pod: &Value) -> Option<Verdict> {
    let is_terminating = !text(pod, "/metadata/deletionTimestamp").is_empty();
    match text(pod, "/status/phase") {
        "Succeeded" | "Failed" => Some(Verdict::Delete),
        _ if is_terminating => Some(Verdict::Delete),
        "Pending" => Some(Verdict::DeleteUnchanged { budget: None }),
        _ => None,
    }
}

/// Decides about a pod by the budgets of its namespace.
pub fn decide<'v>(pod: &Value, budgets: impl IntoIterator<Item = &'v Value>) -> Verdict {
    let covering: Vec<&Value> = budgets.into_iter().filter(|budget| covers(budget, pod)).collect();
    let budget = match covering.as_slice() {
        [] => return Verdict::Delete,
        [one] => *one,
        _ => {
            let message =
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Verdict::Refused(Box::new(Status::failure(500, "", message)));
        }
    };
    let name = text(budget, "/metadata/name").to_owned();
    if !is_ready(pod) {
        let (healthy, desired) = (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
        let always = text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Verdict::DeleteUnchanged { budget: Some(name) };
        }
    }
    Verdict::DeleteAfter { budget: name }
}

/// Returns the budget with one disruption taken for this pod, or the reason why it allows none.
pub fn take_disruption(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let name = text(budget, "/metadata/name");
    let allowed = number(budget, "/status/disruptionsAllowed");
    let forbidden = |why: &str| Err(Status::forbidden("policy", "poddisruptionbudget", name, why));
    if number(budget, "/status/observedGeneration") < number(budget, "/metadata/generation") {
        return Err(still_processed(name));
    }
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        return Err(too_many(format!("The disruption budget {name} {}", refusal_reason(budget)), 0));
    }
    let mut budget = budget.clone();
    budget["status"]["disruptionsAllowed"] = json!(allowed - 1);
    if !budget["status"]["disruptedPods"].is_object() {
        budget["status"]["disruptedPods"] = json!({});
    }
    budget["status"]["disruptedPods"][pod] = json!(proto::meta::time::format(now));
    if allowed == 1 {
        set_insufficient(&mut budget, now);
    }
    Ok(budget)
}

/// Returns why a budget allows no disruption. Its numbers are not current when its controller has failed.
fn refusal_reason(budget: &Value) -> String {
    let conditions = budget.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let mut refusals = conditions.filter(|c| c["type"] == "DisruptionAllowed" && c["status"] == "False");
    let refusal = refusals.find(|c| !text(c, "/message").is_empty());
    let (desired, healthy) = (number(budget, "/status/desiredHealthy"), number(budget, "/status/currentHealthy"));
    match refusal.map(|c| (text(c, "/reason"), text(c, "/message"))) {
        Some(("SyncFailed", message)) => {
            format!("does not allow evicting pods currently because it failed sync: {message}")
        }
        _ if healthy <= desired => format!("needs {desired} healthy pods and has {healthy} currently"),
        Some((reason, message)) => format!("does not allow evicting pods currently ({reason}): {message}"),
        None => "does not allow evicting pods currently".to_owned(),
    }
}

/// Returns the status 429 that asks the client to retry, because the status of the budget is not current.
pub fn still_processed(budget: &str) -> Status {
    too_many(format!("The disruption budget {budget} is still being processed by the server."), 10)
}

fn too_many(why: String, retry_after_s: u32) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::too_many_requests(message, retry_after_s);
    let details = status.details.get_or_insert_default();
    details.retry_after_seconds = (retry_after_s > 0).then_some(retry_after_s);
    details.causes = vec![Cause { reason: "DisruptionBudget".to_owned(), message: why, field: String::new() }];
    status
}

/// Sets the condition DisruptionAllowed to False, after the last disruption is taken.
fn set_insufficient(budget: &mut Value, now: Timestamp) {
    let generation = number(budget, "/metadata/generation");
    let Some(conditions) = budget.pointer_mut("/status/conditions").and_then(Value::as_array_mut) else { return };
    for condition in conditions.iter_mut().filter(|condition| condition["type"] == "DisruptionAllowed") {
        if condition["status"] != "False" {
            condition["lastTransitionTime"] = json!(proto::meta::time::format(now));
        }
        condition["status"] = json!("False");
        condition["reason"] = json!("InsufficientPods");
        condition["observedGeneration"] = json!(generation);
    }
}

/// Returns the pod with the condition that records the eviction.
pub fn with_disruption_target(pod: &Value, now: Timestamp) -> Value {
    let mut pod = pod.clone();
    let generation = number(&pod, "/metadata/generation");
    let mut target = json!({
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": null,
        "lastTransitionTime": proto::meta::time::format(now),
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    });
    if generation > 0 {
        target["observedGeneration"] = json!(generation);
    }
    if !pod["status"]["conditions"].is_array() {
        pod["status"]["conditions"] = json!([]);
    }
    let conditions = pod["status"]["conditions"].as_array_mut().expect("just made sure of it");
    match conditions.iter_mut().find(|condition| condition["type"] == "DisruptionTarget") {
        Some(known) => {
            if known["status"] == "True" {
                target["lastTransitionTime"] = known["lastTransitionTime"].clone();
            }
            *known = target;
        }
        None => conditions.push(target),
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, ready: bool) -> Value {
        let ready = if ready { "True" } else { "False" };
        let conditions = json!([{"type":"Ready","status":ready}]);
        json!({"metadata":{"name":"p","labels":{"app":"a"}},"status":{"phase":phase,"conditions":conditions}})
    }

    fn budget(allowed: i64, healthy: i64) -> Value {
        json!({
            "metadata":{"name":"b","generation":1},
            "spec":{"selector":{"matchLabels":{"app":"a"}},"unhealthyPodEvictionPolicy":"IfHealthyBudget"},
            "status":{"observedGeneration":1,"disruptionsAllowed":allowed,"currentHealthy":healthy,"desiredHealthy":1}
        })
    }

    fn verdict(pod: &Value, budgets: &[Value]) -> String {
        let verdict = decide_without_budgets(pod).unwrap_or_else(|| decide(pod, budgets));
        let refused = |status: &Status| {
            let causes = status.details.iter().flat_map(|details| &details.causes);
            format!("{} {}", status.code, causes.map(|cause| cause.message.as_str()).collect::<String>())
        };
        match verdict {
            Verdict::Delete => "delete".to_owned(),
            Verdict::DeleteUnchanged { budget } => format!("delete unchanged {}", budget.unwrap_or_default()),
            Verdict::DeleteAfter { .. } => {
                match take_disruption(&budgets[0], "p", "2026-01-01T00:00:00Z".parse().unwrap()) {
                    Ok(budget) => format!(
                        "count {} {}",
                        budget["status"]["disruptionsAllowed"], budget["status"]["disruptedPods"]
                    ),
                    Err(status) => refused(&status),
                }
            }
            Verdict::Refused(status) => refused(&status),
        }
    }

    #[test]
    fn budgets_decide() {
        let running = pod("Running", true);
        let with = |mut budget: Value, pointer: &str, value: Value| {
            *budget.pointer_mut(pointer).unwrap() = value;
            budget
        };
        let stale = with(budget(1, 2), "/metadata/generation", json!(2));
        let elsewhere = with(budget(0, 1), "/spec/selector", json!({"matchLabels":{"app":"other"}}));
        let condition = |reason: &str| {
            let condition = json!({"type":"DisruptionAllowed","status":"False","reason":reason,"message":"m"});
            let mut budget = budget(0, 3);
            budget["status"]["conditions"] = json!([condition]);
            budget
        };
        let mut leaving = running.clone();
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let none = "429 The disruption budget b does not allow evicting pods currently";
        let cases: [(&Value, Vec<Value>, &str); 17] = [
            (&running, vec![], "delete"),
            (&running, vec![elsewhere], "delete"),
            (&pod("Pending", false), vec![budget(0, 1)], "delete unchanged "),
            (&pod("Succeeded", false), vec![budget(0, 1)], "delete"),
            (&pod("Failed", false), vec![budget(0, 1)], "delete"),
            (&leaving, vec![budget(0, 1)], "delete"),
            (&running, vec![budget(2, 3)], r#"count 1 {"p":"2026-01-01T00:00:00Z"}"#),
            (&running, vec![budget(0, 1)], "429 The disruption budget b needs 1 healthy pods and has 1 currently"),
            (&running, vec![budget(0, 3)], none),
            (&running, vec![condition("SyncFailed")], &format!("{none} because it failed sync: m")),
            (&running, vec![condition("Other")], &format!("{none} (Other): m")),
            (&running, vec![budget(-1, 1)], "403 "),
            (&running, vec![stale], "429 The disruption budget b is still being processed by the server."),
            (&running, vec![budget(1, 2), budget(1, 2)], "500 "),
            (&pod("Running", false), vec![budget(0, 1)], "delete unchanged b"),
            (
                &pod("Running", false),
                vec![budget(0, 0)],
                "429 The disruption budget b needs 1 healthy pods and has 0 currently",
            ),
            (
                &pod("Running", false),
                vec![with(budget(0, 0), "/spec/unhealthyPodEvictionPolicy", json!("AlwaysAllow"))],
                "delete unchanged b",
            ),
        ];
        for (pod, budgets, expected) in cases {
            assert_eq!(verdict(pod, &budgets), expected);
        }
    }

    #[test]
    fn the_disruption_target_condition_keeps_its_transition_time() {
        let first = with_disruption_target(&pod("Running", true), "2026-01-01T00:00:00Z".parse().unwrap());
        let again = with_disruption_target(&first, "2026-01-01T00:00:09Z".parse().unwrap());
        assert_eq!(first, again);
        assert_eq!(first["status"]["conditions"].as_array().map(Vec::len), Some(2));
    }
}
