//! Evictions: deletes a pod if its disruption budgets allow it.
//!
//! Corresponds to EvictionREST in pkg/registry/core/pod/storage/eviction.go. The decision is for the pod as it is
//! after admission, and the deletion requires that same pod: after a conflict with another writer, the decision is repeated.

use super::Call;
use super::body::{ExpectedKind, RequestBody};
use crate::answer;
use admission::Operation;
use axum::body::Body;
use cacher::Freshness;
use http::Response;
use jiff::Timestamp;
use patch::apply::conversions::Conversions;
use proto::Status;
use proto::resources::Target;
use registry::deletion::check_preconditions;
use registry::mutation::{Admission, Change, Changed, Edit, Mutation};
use request::options::DeleteOptions;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use strategy::kinds::pod::eviction;
use strategy::kinds::pod::eviction::Verdict;
use strategy::object_meta;

/// Number of attempts after conflicts with other writers, and the pause between two of them.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(500);
const JITTER: f64 = 0.1;

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let form = call.plain_form()?;
    let kind = ExpectedKind::builtin("policy", "v1", "Eviction", "io.k8s.api.policy.v1.Eviction");
    let kind = ExpectedKind { older_version: Some("v1beta1"), ..kind };
    let request = RequestBody::read(call, &kind.schema, "CreateOptions", body).await?;
    let mut eviction = request.decode(call, &kind)?;
    let name = call.info.name.as_str();
    let given = object_meta::text(&eviction, "name");
    if !given.is_empty() && given != name {
        return Err(Status::bad_request("name in URL does not match name in Eviction object"));
    }
    let options = DeleteOptions::of(eviction.get("deleteOptions").unwrap_or(&json!({})))?;
    let options = DeleteOptions { dry_run: request.options.dry_run || options.dry_run, ..options };
    let mut mutation = call.mutation(target, "", options.dry_run, &request.options.given);
    call.admit(Operation::Create, &mut mutation, &mut eviction).await?;
    evict(call, target, &options).await?;
    Ok(answer::created(&form))
}

/// Decides and deletes, and tries again after a conflict with another writer. With a precondition for the pod's uid or
/// version, a conflict is returned at once.
async fn evict(call: &Call<'_>, target: &Target, options: &DeleteOptions) -> registry::Result<()> {
    let has_precondition = options.uid.is_some() || options.resource_version.is_some();
    let (namespace, name) = (call.info.namespace.as_str(), call.info.name.as_str());
    for attempt in 1.. {
        let pod = call.server.registry.read_object(target, namespace, name, "").await?.to_value();
        match evict_pod(call, target, options, &pod).await {
            Err(conflict) if conflict.is_conflict() && !has_precondition && attempt < ATTEMPTS => {
                call.server.env.sleep(call.server.random.jitter(PAUSE, JITTER)).await;
            }
            outcome => return outcome,
        }
    }
    unreachable!("the last attempt returns")
}

/// Decides about the eviction of this pod and deletes it.
///
/// Deviation: the deletion requires the uid of the pod that the decision is for, so that a new pod of the same name gets a
/// decision of its own. Kubernetes deletes whichever pod has the name by then.
async fn evict_pod(call: &Call<'_>, target: &Target, options: &DeleteOptions, pod: &Value) -> registry::Result<()> {
    let mut deletion = options.clone();
    deletion.uid.get_or_insert_with(|| object_meta::text(pod, "uid").to_owned());
    let verdict = match eviction::decide_without_budgets(pod) {
        Some(verdict) => verdict,
        None => eviction::decide(pod, budgets(call).await?.iter().map(|budget| &**budget)),
    };
    match verdict {
        Verdict::Refused(status) => Err((*status).into()),
        Verdict::Delete => delete(call, target, deletion).await,
        Verdict::DeleteAfter { budget } => {
            claim_disruption(call, &budget, options.dry_run).await?;
            delete(call, target, deletion).await
        }
        Verdict::DeleteUnchanged { budget } => {
            let version = object_meta::text(pod, "resourceVersion");
            deletion.resource_version.get_or_insert_with(|| version.to_owned());
            let outcome = delete(call, target, deletion).await;
            outcome.map_err(|error| match budget {
                // The pod may be ready by now. The client retries, and the budget's status is current by then.
                Some(budget) if error.is_conflict() && options.resource_version.is_none() => {
                    eviction::still_processed(&budget).into()
                }
                _ => error,
            })
        }
    }
}

/// Returns the budgets of the pod's namespace, from a cache that is at least as new as this call.
async fn budgets(call: &Call<'_>) -> registry::Result<Vec<Arc<Value>>> {
    let (_, row) = call.server.registry.row_of("policy", "poddisruptionbudgets")?;
    let snapshot = row.cacher.read(Freshness::Latest).await?;
    Ok(snapshot.in_namespace(&call.info.namespace).map(|(_, budget)| budget.value()).collect())
}

/// Takes one disruption from the budget, or returns 429 if it has none left.
async fn claim_disruption(call: &Call<'_>, budget: &str, dry_run: bool) -> registry::Result<()> {
    let registry = &call.server.registry;
    let (budgets, _) = registry.row_of("policy", "poddisruptionbudgets")?;
    let (pod, now) = (call.info.name.as_str(), call.server.env.wall());
    let edit = Edit(|budget: &Value| eviction::take_disruption(budget, pod, now));
    let options = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
    let mut mutation = Mutation {
        name: budget,
        subresource: "status",
        ..call.mutation(&budgets, "kube-apiserver", dry_run, &options)
    };
    let claimed = registry.update(&mut mutation, &edit).await;
    claimed.map(drop).map_err(|error| {
        if error.is_conflict() {
            let why = format!("Timeout: couldn't update PodDisruptionBudget {budget:?} due to conflicts");
            Status::timeout(why, 10).into()
        } else {
            error
        }
    })
}

/// Sets the condition `DisruptionTarget` of the pod and deletes it. Both writes check the options' preconditions.
async fn delete(call: &Call<'_>, target: &Target, mut options: DeleteOptions) -> registry::Result<()> {
    if !options.dry_run {
        let change = SetDisruptionTarget { target, options: &options, now: call.server.env.wall() };
        let update = json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"});
        let mutation = call.mutation(target, "", false, &update);
        let mut mutation = Mutation { subresource: "status", admission: Admission::Skipped, ..mutation };
        let updated = call.server.registry.update(&mut mutation, &change).await?;
        if let Some(version) = &mut options.resource_version {
            *version = updated.object.revision.to_string();
        }
    }
    let mutation = call.mutation(target, "", options.dry_run, &options.given);
    let mut mutation = Mutation { subresource: "", admission: Admission::Skipped, ..mutation };
    call.delete(&mut mutation, &options).await.map(drop)
}

/// The change that sets the condition `DisruptionTarget`. It leaves `managedFields` as they are.
struct SetDisruptionTarget<'a> {
    target: &'a Target,
    options: &'a DeleteOptions,
    now: Timestamp,
}

impl Change for SetDisruptionTarget<'_> {
    fn change(&self, current: Option<&Value>, _conversions: &Conversions) -> registry::Result<Changed> {
        let pod = current.ok_or_else(|| Status::internal("a mark needs a pod"))?;
        check_preconditions(self.target.served(), object_meta::text(pod, "name"), self.options, pod)?;
        Ok(Changed { object: eviction::with_disruption_target(pod, self.now), managed: true })
    }
}
