//! The loop of a controller: look, decide, act, and look again when something changed or the time has come.
//!
//! Corresponds to the worker and sync functions of every package below pkg/controller.

use crate::clock;
use crate::context::Actor;
use client::{Action, ApplyError, Client, Plan, ReconcileError, Stale, WorkQueue, apply, run_workers};
use component_base::env::Env;
use jiff::Timestamp;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// A controller that looks at one object at a time. Every round is one plan.
pub trait Reconciler: Send + Sync + 'static {
    type Observed: Send + Sync;

    /// Whether the caches are as new as what this controller wrote about the object. Where they are not, the round is
    /// left out, and comes a little later.
    fn ensure_ready(&self, _key: &str) -> Result<(), Stale> {
        Ok(())
    }

    /// From the caches alone. Nothing where there is nothing to do.
    fn observe(&self, key: &str) -> Option<Self::Observed>;

    /// Asks the server itself for what must not be taken from a cache, or is in none. Nothing where its answer leaves
    /// nothing to do.
    fn consult(
        &self,
        _client: &Client,
        observed: Self::Observed,
    ) -> impl Future<Output = Result<Option<Self::Observed>, ReconcileError>> + Send {
        async { Ok(Some(observed)) }
    }

    /// Pure.
    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan;

    /// Carries a plan out. Controllers that have to remember what they wrote, until a cache shows it, do so here.
    fn apply(
        &self,
        actor: &Actor,
        _key: &str,
        _observed: &Self::Observed,
        plan: &Plan,
    ) -> impl Future<Output = Result<(), ApplyError>> + Send {
        async move { apply(&actor.client, &actor.recorder, plan).await.map(drop) }
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
    if let Err(stale) = reconciler.ensure_ready(&key) {
        tracing::debug!(controller = queue.name(), key, %stale, "waiting for a cache");
        queue.add_after(key, clock::TICK);
        return Ok(());
    }
    let Some(observed) = reconciler.observe(&key) else { return Ok(()) };
    let Some(observed) = reconciler.consult(&actor.client, observed).await? else { return Ok(()) };
    let env = actor.client.env();
    let plan = reconciler.plan(&observed, env.wall());
    match reconciler.apply(actor, &key, &observed, &plan).await {
        Ok(()) => {
            if let Some(after) = plan.requeue_after {
                queue.add_after(key, after);
            }
            Ok(())
        }
        Err(error) => {
            if let Some(plan) = reconciler.recover(&observed, &error, env.wall()) {
                reconciler.apply(actor, &key, &observed, &plan).await?;
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

/// What was to be changed is gone, or what was to be made is there: the cache will hear of it.
fn is_overtaken(error: &ApplyError) -> bool {
    match error.failed {
        Action::Create { .. } => error.cause.is_already_exists(),
        _ => error.cause.is_not_found(),
    }
}

/// A controller that looks at everything at once, every so often.
pub trait Patrol: Send + 'static {
    type Observed: Send;

    fn observe(&mut self, now: Timestamp) -> impl Future<Output = Self::Observed> + Send;

    /// Each object's actions are a plan of its own: what fails for one does not hold up the others.
    fn plan(&mut self, observed: &Self::Observed, now: Timestamp) -> Vec<Plan>;
}

/// Looks once in `period` until shutdown, for the first time at once. What fails is tried again at the next look.
pub async fn patrol<P: Patrol>(env: Env, actor: Actor, name: &'static str, period: Duration, mut patrol: P) {
    loop {
        let now = env.wall();
        let observed = patrol.observe(now).await;
        for plan in patrol.plan(&observed, now) {
            if let Err(error) = apply(&actor.client, &actor.recorder, &plan).await {
                tracing::warn!(controller = name, %error, "trying again at the next look");
            }
        }
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(period) => {}
        }
    }
}
