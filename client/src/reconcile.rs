//! The loop that runs a controller: observe, plan, apply, and again when an event or a delay adds the key.
//!
//! Corresponds to the worker and sync functions of every package below pkg/controller, and to sigs.k8s.io/controller-runtime
//! for controllers of other people.

use crate::client::Client;
use crate::consistency::Stale;
use crate::controller::{ReconcileError, run_workers};
use crate::events::{EventSpec, EventType, Recorder, Regarding};
use crate::plan::{Action, ApplyError, Plan, apply};
use crate::work_queue::WorkQueue;
use component_base::env::Env;
use jiff::Timestamp;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Shortest delay before a key is reconciled again. Times in objects have whole seconds, and a shorter delay could end within
/// the same one.
pub const TICK: Duration = Duration::from_secs(1);

/// The identity under which a controller writes: its client and its event recorder.
#[derive(Clone)]
pub struct Actor {
    pub client: Client,
    pub recorder: Recorder,
}

impl Actor {
    /// Makes an actor that writes with `client`. `component` is the source of its events.
    pub fn new(client: &Client, component: &str) -> Self {
        Self { recorder: Recorder::new(client, component, ""), client: client.clone() }
    }
}

/// A controller that reconciles one object at a time. Each round applies one plan.
pub trait Reconciler: Send + Sync + 'static {
    type Observed: Send + Sync;

    /// Fails while a cache is older than this controller's writes about the object. The round is then put off.
    fn ensure_ready(&self, _key: &str) -> Result<(), Stale> {
        Ok(())
    }

    /// Reads the caches, and nothing else. `None` if there is nothing to do.
    fn observe(&self, key: &str) -> Option<Self::Observed>;

    /// Asks the server for what no cache holds or a cache may hold too old. `None` if there is nothing left to do.
    fn consult(
        &self,
        _client: &Client,
        observed: Self::Observed,
    ) -> impl Future<Output = Result<Option<Self::Observed>, ReconcileError>> + Send {
        async { Ok(Some(observed)) }
    }

    /// Decides what to write. Pure: no clock, no randomness, no request.
    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan;

    /// Carries a plan out. A controller that has to remember its writes until a cache shows them does so here.
    fn apply(
        &self,
        actor: &Actor,
        _key: &str,
        _observed: &Self::Observed,
        plan: &Plan,
    ) -> impl Future<Output = Result<(), ApplyError>> + Send {
        async move { apply(&actor.client, &actor.recorder, plan).await.map(drop) }
    }

    /// Plans what to write, besides the retry, after an action has failed.
    fn recover(&self, _observed: &Self::Observed, _error: &ApplyError, _now: Timestamp) -> Option<Plan> {
        None
    }
}

/// Reconciles the keys of a queue until shutdown.
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
        queue.add_after(key, TICK);
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
            } else if let Some(event) = refusal(&error) {
                apply(&actor.client, &actor.recorder, &Plan::of([event])).await?;
            }
            if is_overtaken(&error) {
                queue.add_after(key, TICK);
                return Ok(());
            }
            // A terminating namespace admits no new objects and deletes the rest: no retry.
            if error.cause.is_namespace_terminating() { Ok(()) } else { Err(error.into()) }
        }
    }
}

/// Returns an event that says why the server has refused an object's update, as a webhook or a policy does.
///
/// Deviation: Kubernetes tells it in the manager's log alone, except for HorizontalPodAutoscalers, whose words these are.
fn refusal(error: &ApplyError) -> Option<Action> {
    let (reason, object) = match &error.failed {
        Action::UpdateStatus { object, .. } => ("FailedUpdateStatus", object),
        Action::Update { object, .. } => ("FailedUpdate", object),
        _ => return None,
    };
    // Other codes mean that the object has changed, or that the server is busy.
    let is_refused = matches!(error.cause.code(), 403 | 422 | 500) && !error.cause.is_namespace_terminating();
    let event = || EventSpec::new(&Regarding::of_value(object), EventType::Warning, reason, error.cause.to_string());
    is_refused.then(|| Action::Event(event()))
}

/// Returns true if the object to change no longer exists, or the object to create does: an event will follow.
fn is_overtaken(error: &ApplyError) -> bool {
    match error.failed {
        Action::Create { .. } => error.cause.is_already_exists(),
        _ => error.cause.is_not_found(),
    }
}

/// A controller that reconciles all objects at once, once a period.
pub trait PeriodicReconciler: Send + 'static {
    type Observed: Send;

    fn observe(&mut self, now: Timestamp) -> impl Future<Output = Self::Observed> + Send;

    /// Returns a plan for each object, so that a failure about one object does not delay the others.
    fn plan(&mut self, observed: &Self::Observed, now: Timestamp) -> Vec<Plan>;

    /// Takes note of the outcome of one of these plans.
    fn note_outcome(&mut self, _observed: &Self::Observed, _plan: &Plan, _result: Result<(), &ApplyError>) {}

    /// Takes note of how long a round has taken.
    fn note_duration(&mut self, _duration: Duration) {}
}

/// Runs a round at once and then once in `period`, until shutdown. The next round retries what failed.
pub async fn run_periodically<R: PeriodicReconciler>(
    env: Env,
    actor: Actor,
    name: &'static str,
    period: Duration,
    mut reconciler: R,
) {
    loop {
        let (begun, now) = (env.now(), env.wall());
        let observed = reconciler.observe(now).await;
        for plan in reconciler.plan(&observed, now) {
            let result = apply(&actor.client, &actor.recorder, &plan).await;
            reconciler.note_outcome(&observed, &plan, result.as_ref().map(|_| ()));
            if let Err(error) = result {
                tracing::warn!(controller = name, %error, "trying again in the next round");
            }
        }
        reconciler.note_duration(env.now() - begun);
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(period) => {}
        }
    }
}
