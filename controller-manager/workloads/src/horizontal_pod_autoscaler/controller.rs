//! Starts the controller of HorizontalPodAutoscalers: what a round asks for, and what it keeps in memory.
//!
//! Corresponds to HorizontalController in pkg/controller/podautoscaler/horizontal.go.

use super::calculator::{Calculator, Tolerances};
use super::mapper::Mapper;
use super::memory::Memory;
use super::metrics::AutoscalerMetrics;
use super::metrics_api::MetricsApi;
use super::plan::{Observed, Target, bounds, needs_metrics, plan, plan_failed_resize};
use super::pods::Readiness;
use super::recommendation::Recommendation;
use super::target::{Scale, read, refreshed, resized_to};
use super::{selection, source};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, ConsistencyStore, Event, Lister, Plan, ReconcileError, Stale};
use controller_base::actions;
use controller_base::autoscaler_options::AutoscalerOptions;
use controller_base::context::{Actor, Running};
use controller_base::descriptor::Setup;
use controller_base::discovery::Discovered;
use controller_base::pod_control::apply_and_record_versions;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::autoscaling::v2::{HPAScalingRules, HorizontalPodAutoscaler};
use proto::kinds::api::core::v1::Pod;
use proto::meta::quantity::Quantity;
use std::sync::Arc;

/// Attempts to change a size that others write to at the same time, as client-go's DefaultRetry.
const RESIZE_ATTEMPTS: u32 = 5;

struct Controller {
    autoscalers: Lister<HorizontalPodAutoscaler>,
    pods: Lister<Pod>,
    mapper: Mapper,
    memory: Memory,
    /// Deviation: a round waits until the cache shows the status that the last one wrote. Kubernetes v1.36 writes again
    /// over a status that it has not seen yet, and fails with a conflict.
    consistency: ConsistencyStore,
    options: AutoscalerOptions,
    metrics: AutoscalerMetrics,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let options = setup.settings.autoscaling.clone();
    let (period, workers) = (options.sync_period(), options.concurrent_horizontal_pod_autoscaler_syncs);
    let queue = setup.queue_with_fixed_delay(period);
    let autoscalers: Lister<HorizontalPodAutoscaler> = setup.lister();
    let consistency = ConsistencyStore::default().reading(&autoscalers);
    let memory = Memory::default();
    setup.on_event(&queue, {
        let (memory, consistency) = (memory.clone(), consistency.clone());
        move |event: &Event<HorizontalPodAutoscaler>, queue| {
            let autoscaler = event.object();
            if matches!(event, Event::Deleted(_)) {
                memory.forget(&autoscaler.key());
                consistency.clear(&autoscaler.key());
                return;
            }
            memory.register(autoscaler);
            // A round once a period, whatever happens: its own writes are events, too.
            queue.add_after(autoscaler.key(), period);
        }
    });
    setup.informer::<Pod>().index_label_sets();
    let (pods, metrics) = (setup.lister(), AutoscalerMetrics::new(setup.env));
    let controller = Controller { autoscalers, pods, mapper: Mapper::default(), memory, consistency, options, metrics };
    setup.run(queue, workers, controller)
}

impl Controller {
    async fn target(&self, client: &Client, autoscaler: &HorizontalPodAutoscaler) -> Result<Target, String> {
        let discovered = self.mapper.discovered(client).await.map_err(|error| error.to_string())?;
        let reference = &autoscaler.spec.scale_target_ref;
        let scale = read(client, &discovered, autoscaler.namespace(), reference).await?;
        let history = self.memory.history(&autoscaler.key(), scale.wanted(), client.env().wall());
        let recommendation = if needs_metrics(bounds(autoscaler), scale.wanted()) {
            Some(match selection::pods(&scale, &autoscaler.key(), &self.memory, &self.pods) {
                Ok(pods) => self.recommendation(client, &discovered, autoscaler, &scale, &pods).await,
                Err(recommendation) => recommendation,
            })
        } else {
            None
        };
        Ok(Target { scale, recommendation, history })
    }

    /// Asks every metric for the size that it wants.
    async fn recommendation(
        &self,
        client: &Client,
        discovered: &Discovered,
        autoscaler: &HorizontalPodAutoscaler,
        scale: &Scale,
        pods: &[Arc<Pod>],
    ) -> Recommendation {
        let api = MetricsApi { client, discovered, namespace: autoscaler.namespace(), pods: scale.selector() };
        let mut proposals = Vec::new();
        for spec in autoscaler.spec.metrics.iter().flatten() {
            let began = client.env().now();
            let reading = api.read(spec).await;
            let calculator = Calculator {
                pods,
                wanted: scale.wanted(),
                counted: scale.counted(),
                tolerances: self.tolerances(autoscaler),
                readiness: Readiness {
                    cpu_initialization_period: self.options.horizontal_pod_autoscaler_cpu_initialization_period,
                    initial_readiness_delay: self.options.horizontal_pod_autoscaler_initial_readiness_delay,
                },
                now: client.env().wall(),
            };
            let proposal = source::propose(spec, reading, &calculator);
            self.metrics.count_computation(spec, &proposal, scale.wanted(), client.env().now() - began);
            proposals.push(proposal);
        }
        Recommendation::of(proposals, scale.wanted())
    }

    fn tolerances(&self, autoscaler: &HorizontalPodAutoscaler) -> Tolerances {
        let behavior = autoscaler.spec.behavior.as_ref();
        let own = |rules: Option<&HPAScalingRules>| {
            let tolerance = Quantity::try_from(rules?.tolerance.as_ref()?).ok()?;
            Some(tolerance.as_f64())
        };
        let of_flag = self.options.horizontal_pod_autoscaler_tolerance;
        Tolerances {
            down: own(behavior.and_then(|behavior| behavior.scale_down.as_ref())).unwrap_or(of_flag),
            up: own(behavior.and_then(|behavior| behavior.scale_up.as_ref())).unwrap_or(of_flag),
        }
    }

    /// Carries an action out. A change of size that met another write of the target is tried again on its new version.
    async fn act(&self, actor: &Actor, key: &str, uid: &str, action: &Action) -> Result<(), ApplyError> {
        let mut action = action.clone();
        let mut attempts = 1;
        loop {
            let result = apply_and_record_versions(actor, &self.consistency, key, uid, &[action.clone()]).await;
            let Err(error) = result else { return Ok(()) };
            if !error.cause.is_conflict() || attempts == RESIZE_ATTEMPTS {
                return Err(error);
            }
            let Some(fresh) = refreshed(&actor.client, &action).await else { return Err(error) };
            action = fresh;
            attempts += 1;
        }
    }
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    fn observe(&self, key: &str) -> Option<Observed> {
        let autoscaler = self.autoscalers.by_key(key)?;
        Some(Observed { autoscaler, target: Err("nobody has asked for the scale yet".to_owned()) })
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let target = self.target(client, &observed.autoscaler).await;
        Ok(Some(Observed { target, ..observed }))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, &self.options, now)
    }

    /// Carries the plan out, and remembers what the metrics asked for and what the target got.
    async fn apply(&self, actor: &Actor, key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        let now = actor.client.env().wall();
        let target = observed.target.as_ref().ok();
        if let Some(size) = target.and_then(|target| target.recommendation.as_ref()?.size()) {
            self.memory.with_history(key, |history| history.recommend(size, now));
        }
        for action in &plan.actions {
            let result = self.act(actor, key, observed.autoscaler.uid(), action).await;
            result.inspect_err(|_| self.metrics.count_round(observed, plan, true))?;
            if let (Some(target), Some(size)) = (target, resized_to(action)) {
                self.memory.with_history(key, |history| history.resized(target.scale.wanted(), size, now));
            }
        }
        self.metrics.count_round(observed, plan, false);
        Ok(())
    }

    fn recover(&self, observed: &Observed, error: &ApplyError, now: Timestamp) -> Option<Plan> {
        let text = error.cause.to_string();
        if resized_to(&error.failed).is_some() {
            return Some(plan_failed_resize(observed, &self.options, &text, now));
        }
        // The status of an autoscaler that is gone is nobody's loss.
        let is_told = matches!(error.failed, Action::UpdateStatus { .. }) && !error.cause.is_not_found();
        is_told.then(|| Plan::of([actions::warning(&*observed.autoscaler, "FailedUpdateStatus", text)]))
    }
}
