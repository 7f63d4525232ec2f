//! Evictions: a pod is deleted if its disruption budgets allow it.
//!
//! Corresponds to EvictionREST in pkg/registry/core/pod/storage/eviction.go.

use super::body::{Given, Kind};
use super::{Call, present};
use crate::admission::{Lookup, Operation};
use crate::registry::mutation::{Admission, Edit, Mutation};
use crate::registry::object_meta;
use crate::request::options::DeleteOptions;
use axum::body::Body;
use http::Response;
use proto::Status;
use proto::meta::label_selector;
use proto::meta::status::Cause;
use proto::resources::Target;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pods of one budget whose disruption has not been seen yet; more wait.
const MAX_DISRUPTED_PODS: usize = 2000;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    let kind = Kind::builtin("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction");
    let kind = Kind { older_version: Some("v1beta1"), ..kind };
    let request = Given::read(call, &kind.schema, "CreateOptions", body).await?;
    let mut eviction = request.of_kind(call, &kind)?;
    let name = call.info.name.as_str();
    let given = object_meta::text(&eviction, "name");
    if !given.is_empty() && given != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::read(&call.info.query, eviction.get("deleteOptions").cloned())?;
    let dry_run = request.options.dry_run || options.dry_run;
    let pod = call.server.registry.read_object(target, &call.info.namespace, name, "").await?.to_value();
    let mut mutation = call.mutation(target, "", dry_run, &request.options.given);
    call.admit(Operation::Create, &mut mutation, &mut eviction).await?;
    if !ignores_budgets(&pod) {
        claim_disruption(call, &pod, dry_run).await?;
    }
    let deletion = call.mutation(target, "", dry_run, &options.given);
    let mut deletion = Mutation { subresource: "", admission: Admission::Done, ..deletion };
    call.delete(&mut deletion, &options).await?;
    Ok(present::created(&form))
}

/// Pods that do not run, or no longer, are evicted whatever their budgets say.
fn ignores_budgets(pod: &Value) -> bool {
    let phase = pod["status"]["phase"].as_str().unwrap_or_default();
    matches!(phase, "Succeeded" | "Failed" | "Pending") || object_meta::deletion_timestamp(pod).is_some()
}

/// Takes one disruption from the pod's budget, or says that there is none: 429.
async fn claim_disruption(call: &Call<'_>, pod: &Value, dry_run: bool) -> Result<(), Status> {
    let registry = &call.server.registry;
    let namespace = call.info.namespace.as_str();
    let labels: BTreeMap<String, String> = pod["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())))
        .collect();
    let budgets: Vec<Arc<Value>> =
        registry.list("policy", "poddisruptionbudgets", namespace)?.iter().map(|budget| budget.value()).collect();
    let matching: Vec<_> = budgets
        .iter()
        .filter(|budget| {
            label_selector::from_value(budget["spec"].get("selector")).is_ok_and(|selector| selector.matches(&labels))
        })
        .collect();
    let budget = match matching.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            return Err(Status::failure(
                500,
                "InternalError",
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    if is_unready(pod) && may_evict_unready(budget) {
        return Ok(());
    }
    let (budgets, _) = registry.row_of("policy", "poddisruptionbudgets")?;
    let budget_name = object_meta::text(budget, "name").to_owned();
    let (pod_name, now) = (call.info.name.as_str(), object_meta::time(call.server.env.wall()));
    let edit = Edit(|budget: &Value| disrupted(budget, pod_name, &now));
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = Mutation {
        name: &budget_name,
        subresource: "status",
        ..call.mutation(&budgets, "kube-apiserver", dry_run, &options)
    };
    registry.update(&mut mutation, &edit).await.map(|_| ())
}

fn is_unready(pod: &Value) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    !conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// `AlwaysAllow`, or enough healthy pods without this one.
fn may_evict_unready(budget: &Value) -> bool {
    let number = |key: &str| budget["status"][key].as_i64().unwrap_or(0);
    match budget["spec"]["unhealthyPodEvictionPolicy"].as_str() {
        Some("AlwaysAllow") => true,
        _ => number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0,
    }
}

/// The budget with one disruption less, or why there is none.
fn disrupted(budget: &Value, pod: &str, now: &str) -> Result<Value, Status> {
    let name = object_meta::text(budget, "name");
    let status = &budget["status"];
    let number = |key: &str| status[key].as_i64().unwrap_or(0);
    let refused = |why: String| {
        let mut status =
            Status::too_many_requests("Cannot evict pod as it would violate the pod's disruption budget.", 0);
        let details = status.details.get_or_insert_default();
        details.retry_after_seconds = None;
        details.causes = vec![Cause { reason: "DisruptionBudget".into(), message: why, field: String::new() }];
        status
    };
    if number("observedGeneration") < object_meta::generation(budget) {
        let mut status = refused(format!("The disruption budget {name} is still being processed by the server."));
        status.details.get_or_insert_default().retry_after_seconds = Some(10);
        return Err(status);
    }
    if number("disruptionsAllowed") <= 0 {
        return Err(refused(format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        )));
    }
    if status["disruptedPods"].as_object().is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return Err(Status::forbidden(
            "policy",
            "poddisruptionbudgets",
            name,
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    let mut budget = budget.clone();
    budget["status"]["disruptionsAllowed"] = json!(number("disruptionsAllowed") - 1);
    budget["status"]["disruptedPods"][pod] = json!(now);
    Ok(budget)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent() {
        let budget = json!({"metadata": {"name": "b", "generation": 1}, "status": {
            "observedGeneration": 1, "disruptionsAllowed": 1, "desiredHealthy": 1, "currentHealthy": 2,
        }});
        let spent = disrupted(&budget, "p", "t").unwrap();
        assert_eq!(spent["status"]["disruptedPods"], json!({"p": "t"}));
        let refused = disrupted(&spent, "q", "t").unwrap_err();
        assert_eq!(refused.code, 429);
        assert_eq!(
            refused.details.unwrap().causes[0].message,
            "The disruption budget b needs 1 healthy pods and has 2 currently"
        );
    }
}
