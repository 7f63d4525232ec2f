//! Eviction: a deletion that the pod's disruption budget may forbid.
//!
//! Corresponds to EvictionREST of pkg/registry/core/pod/storage. The decision is pure; whoever carries it out
//! writes the budget first, under its resourceVersion, and decides again if that is lost.

use jiff::Timestamp;
use proto::Status;
use proto::meta::label_selector;
use proto::meta::status::Cause;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Evictions that a budget's controller has not confirmed yet; more are refused.
const MAX_DISRUPTED_PODS: usize = 2000;

/// What an eviction comes to.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// The pod may be deleted; no budget counts it.
    Delete,
    /// The pod may be deleted once this budget is stored.
    DeleteAfter {
        budget: Value,
    },
    Refused(Box<Status>),
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// Whether the budget of the pod's namespace covers the pod.
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

/// `budgets` are those of the pod's namespace.
pub fn decide<'v>(pod: &Value, budgets: impl IntoIterator<Item = &'v Value>, now: Timestamp) -> Verdict {
    let over = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed" | "Pending")
        || !text(pod, "/metadata/deletionTimestamp").is_empty();
    if over {
        return Verdict::Delete;
    }
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
    if !is_ready(pod) {
        let (healthy, desired) = (number(budget, "/status/currentHealthy"), number(budget, "/status/desiredHealthy"));
        let always = text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        if always || (healthy >= desired && desired > 0) {
            return Verdict::Delete;
        }
    }
    match count(budget, text(pod, "/metadata/name"), now) {
        Ok(budget) => Verdict::DeleteAfter { budget },
        Err(status) => Verdict::Refused(Box::new(status)),
    }
}

/// The budget with one disruption less.
fn count(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Status> {
    let name = text(budget, "/metadata/name");
    let allowed = number(budget, "/status/disruptionsAllowed");
    let forbidden = |why: &str| Err(Status::forbidden("policy", "poddisruptionbudget", name, why));
    if number(budget, "/status/observedGeneration") < number(budget, "/metadata/generation") {
        return Err(too_many(format!("The disruption budget {name} is still being processed by the server."), 10));
    }
    if allowed < 0 {
        return forbidden("pdb disruptions allowed is negative");
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
    }
    if allowed == 0 {
        let (desired, healthy) = (number(budget, "/status/desiredHealthy"), number(budget, "/status/currentHealthy"));
        let why = format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently");
        return Err(too_many(why, 0));
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

fn too_many(why: String, retry_after_s: u32) -> Status {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut status = Status::too_many_requests(message, retry_after_s);
    let details = status.details.get_or_insert_default();
    details.retry_after_seconds = (retry_after_s > 0).then_some(retry_after_s);
    details.causes = vec![Cause { reason: "DisruptionBudget".to_owned(), message: why, field: String::new() }];
    status
}

/// No more disruptions: the budget says so itself.
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
            "spec":{"selector":{"matchLabels":{"app":"a"}}},
            "status":{"observedGeneration":1,"disruptionsAllowed":allowed,"currentHealthy":healthy,"desiredHealthy":1}
        })
    }

    fn verdict(pod: &Value, budgets: &[Value]) -> String {
        match decide(pod, budgets, "2026-01-01T00:00:00Z".parse().unwrap()) {
            Verdict::Delete => "delete".to_owned(),
            Verdict::DeleteAfter { budget } => format!("count {}", budget["status"]["disruptionsAllowed"]),
            Verdict::Refused(status) => {
                let cause =
                    status.details.and_then(|d| d.causes.first().map(|c| c.message.clone())).unwrap_or_default();
                format!("{} {cause}", status.code)
            }
        }
    }

    #[test]
    fn budgets_decide() {
        let running = pod("Running", true);
        let mut stale = budget(1, 2);
        stale["metadata"]["generation"] = json!(2);
        let mut elsewhere = budget(0, 1);
        elsewhere["spec"]["selector"] = json!({"matchLabels":{"app":"other"}});
        let cases: [(&Value, Vec<Value>, &str); 8] = [
            (&running, vec![], "delete"),
            (&running, vec![elsewhere], "delete"),
            (&pod("Pending", false), vec![budget(0, 1)], "delete"),
            (&running, vec![budget(2, 3)], "count 1"),
            (&running, vec![budget(0, 1)], "429 The disruption budget b needs 1 healthy pods and has 1 currently"),
            (&running, vec![stale], "429 The disruption budget b is still being processed by the server."),
            (&running, vec![budget(1, 2), budget(1, 2)], "500 "),
            (&pod("Running", false), vec![budget(0, 1)], "delete"),
        ];
        for (pod, budgets, expected) in cases {
            assert_eq!(verdict(pod, &budgets), expected);
        }
    }
}
