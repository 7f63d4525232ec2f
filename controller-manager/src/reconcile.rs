//! The loop of a controller: look, decide, act, and look again when something changed or the time has come.
//!
//! Corresponds to the worker and sync functions of every package below pkg/controller.

use crate::clock;
use crate::context::Actor;
use client::{Action, ApplyError, Client, Plan, ReconcileError, WorkQueue, apply, run_workers};
use jiff::Timestamp;
use std::future::Future;
use std::sync::Arc;

/// A controller whose every round is one plan.
pub trait Reconciler: Send + Sync + 'static {
    type Observed: Send + Sync;

    /// From the caches alone. Nothing where there is nothing to do.
    fn observe(&self, key: &str) -> Option<Self::Observed>;

    /// Pure.
    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan;

    /// Asks the server itself for what must not be taken from a cache, before the plan is carried out.
    fn confirm(
        &self,
        _client: &Client,
        _observed: &Self::Observed,
    ) -> impl Future<Output = Result<(), ReconcileError>> + Send {
        async { Ok(()) }
    }

    /// What to do about an action that failed, besides trying again.
    fn recover(&self, _observed: &Self::Observed, _error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        None
    }
}

/// Works off a queue until shutdown.
pub async fn run<R: Reconciler>(actor: Actor, queue: WorkQueue<String>, workers: usize, reconciler: R) {
    let name = queue.name();
    let shared = Arc::new((actor, queue.clone(), reconciler));
    let env = shared.0.client.env().clone();
    run_workers(&env, name, queue, workers, move |key| {
        let shared = shared.clone();
        async move {
            let (actor, queue, reconciler) = &*shared;
            round(actor, queue, reconciler, key).await
        }
    })
    .await;
}

async fn round<R: Reconciler>(
    actor: &Actor,
    queue: &WorkQueue<String>,
    reconciler: &R,
    key: String,
) -> Result<(), ReconcileError> {
    let Some(observed) = reconciler.observe(&key) else { return Ok(()) };
    let env = actor.client.env();
    let plan = reconciler.plan(&observed, env.wall());
    if !plan.is_empty() {
        reconciler.confirm(&actor.client, &observed).await?;
    }
    match apply(&actor.client, &actor.recorder, &plan).await {
        Ok(_) => {
            if let Some(after) = plan.requeue_after {
                queue.add_after(key, after);
            }
            Ok(())
        }
        Err(error) => {
            if let Some(plan) = reconciler.recover(&observed, &error, env.wall()) {
                apply(&actor.client, &actor.recorder, &plan).await?;
                if error.cause.is_already_exists() {
                    queue.add_after(key, clock::TICK);
                    return Ok(());
                }
            }
            if is_overtaken(&error) {
                queue.add_after(key, clock::TICK);
                return Ok(());
            }
            // Nothing new fits into a namespace that is going away, and its end takes the rest.
            if error.cause.is_namespace_terminating() { Ok(()) } else { Err(error.into()) }
        }
    }
}

/// What was to be changed is gone: the cache will hear of it.
pub fn is_overtaken(error: &ApplyError) -> bool {
    error.cause.is_not_found() && !matches!(error.failed, Action::Create { .. })
}
