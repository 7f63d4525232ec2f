//! `Scheduler` takes pods from the queue one by one and schedules them. Each decision is written by its own task, so
//! that the next one does not wait for the API server.
//!
//! Corresponds to pkg/scheduler/scheduler.go and the outer half of schedule_one.go.

mod event_handlers;
mod failure;
mod pod_group;
mod pod_group_observer;
mod preemption;
mod recording;

use crate::binding;
use crate::extenders::Extenders;
use crate::metrics::batches::BatchMetrics;
use crate::metrics::pod_groups::PodGroupMetrics;
use crate::metrics::preemption::PreemptionMetrics;
use crate::metrics::queue::QueueMetrics;
use crate::metrics::{AttemptResult, SchedulerMetrics, timing};
use crate::queue::QueuedPod;
use crate::queue::shared::SharedQueue;
use crate::surroundings::Surroundings;
use client::{Action, Client, Informer, Informers, ListOptions, Lister, Recorder};
use component_base::env::Env;
use component_base::rng::Random;
use failure::{FailedPod, Failure};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_explanation::{Attempts, Outcome};
use scheduler_plugins::Sources;
use scheduler_plugins::default_binder::DefaultBinder;
use scheduler_plugins::default_selector::Workloads;
use scheduler_plugins::dynamic_resources::{self, DynamicResources};
use scheduler_plugins::storage::Storage;
use scheduler_plugins::volume_binding::{self, VolumeBinding};
use scheduling_framework::batch::Batches;
use scheduling_framework::cache::{Cache, Snapshot};
use scheduling_framework::configuration::Configuration;
use scheduling_framework::configuration::plugin_sets::Point;
use scheduling_framework::configuration::profile::DEFAULT_SCHEDULER;
use scheduling_framework::cycle::{self, Rotation};
use scheduling_framework::features::{
    DRA_DEVICE_TAINT_RULES, GENERIC_WORKLOAD, NOMINATED_NODE_NAME_FOR_EXPECTATION, OPPORTUNISTIC_BATCHING,
    SCHEDULER_ASYNC_PREEMPTION, WORKLOAD_AWARE_PREEMPTION,
};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    BindError, ClusterEvent, CycleError, CycleExtender, CycleState, FitError, Handle, PodGroups, PreBind, Profile,
    Profiles, Register, Registry, WaitingPods,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tracing::Instrument;

/// Limit on concurrent writes of bindings and failures. Beyond it the loop waits.
const MAX_WRITES: usize = 64;
/// Decisions in a row before other tasks have their turn. The bindings of one turn are written to the connection together.
const DECISIONS_AT_ONCE: usize = 8;

pub struct Scheduler {
    env: Env,
    client: Client,
    registry: Registry,
    profiles: Mutex<Arc<Profiles>>,
    extenders: Mutex<Arc<Extenders>>,
    /// Takes the place of the extenders; `None` in every scheduler of a cluster.
    decider: Option<Arc<dyn CycleExtender>>,
    /// Recorders by the scheduler name that their events have.
    recorders: Mutex<BTreeMap<String, Arc<Recorder>>>,
    pub(crate) queue: SharedQueue,
    pub(crate) cache: Mutex<Cache>,
    waiting_pods: WaitingPods,
    pod_groups: PodGroups,
    /// True if all pods of a PodGroup are scheduled in one cycle.
    sees_taint_rules: bool,
    schedules_groups: bool,
    /// True if a PodGroup may preempt as a whole.
    preempts_for_groups: bool,
    /// True if victims are deleted while other pods are scheduled.
    preempts_asynchronously: bool,
    /// True if a pod whose binding has to wait gets a nominated node.
    nominates_expected_nodes: bool,
    pub(crate) pods: Lister<Pod>,
    pub(crate) nodes: Lister<Node>,
    pub(crate) surroundings: Surroundings,
    pub(crate) metrics: SchedulerMetrics,
    /// `None` unless groups are scheduled.
    group_metrics: Option<PodGroupMetrics>,
    /// `None` unless equal pods share results.
    batch_metrics: Option<BatchMetrics>,
    /// `None` unless preemption is asynchronous.
    preemption_metrics: Option<PreemptionMetrics>,
    /// Receives every attempt.
    attempts: Option<Arc<dyn Attempts>>,
    random: Random,
    writes: Arc<Semaphore>,
}

/// One try to find a node for a pod.
struct Attempt {
    queued: QueuedPod,
    profile: Arc<Profile>,
    extenders: Arc<Extenders>,
    recorder: Arc<Recorder>,
    began: Instant,
    /// Number of the attempt in the list of those that are kept.
    kept: Option<u64>,
}

/// What was decided about a pod, as far as it is to be written.
enum Decided {
    /// The pod gets this node.
    Placed(Box<Attempt>, Box<CycleState>, String),
    Failed(Box<FailedPod>),
}

/// Returns the informer of the pods that use resources. For this watch, terminal pods are deleted.
fn pods(informers: &Informers) -> Informer<Pod> {
    informers.of_selected::<Pod>(&ListOptions::fields("status.phase!=Succeeded,status.phase!=Failed"))
}

/// Returns Kubernetes' plugins and those that `register` adds.
pub fn registry(handle: &Handle<'_>, register: &Register) -> Registry {
    let Handle { client, informers, env, .. } = *handle;
    let sources = Sources {
        workloads: Workloads {
            services: informers.of().lister(),
            replication_controllers: informers.of().lister(),
            replica_sets: informers.of().lister(),
            stateful_sets: informers.of().lister(),
        },
        volumes: VolumeBinding {
            args: Default::default(),
            sources: volume_binding::Sources::new(
                pods(informers).lister(),
                informers.of().lister(),
                Storage::new(informers),
            ),
            writer: Some(volume_binding::Writer::new(client)),
        },
        devices: DynamicResources {
            sources: dynamic_resources::Sources::new(informers, handle.features),
            random: env.random("scheduler/shares"),
            max_steps: dynamic_resources::MAX_STEPS,
            writer: Some(dynamic_resources::Writer::new(client, Recorder::of_series(client, DEFAULT_SCHEDULER))),
        },
        budgets: informers.of().lister(),
        random: env.random("scheduler/preemption"),
    };
    let mut registry = scheduler_plugins::in_tree(&sources, Arc::new(DefaultBinder { client: client.clone() }));
    scheduler_scripts::register(&mut registry);
    scheduling_policies::register(&mut registry, handle.waiting_pods, &env.random("scheduler/policies"));
    scheduler_plugins::add_gated(&mut registry, handle.features, handle.pod_groups, handle.waiting_pods);
    register(handle, &mut registry);
    registry
}

impl Scheduler {
    /// Connects informers, cache and queue. Nothing is scheduled before `run`. Returns what is wrong with the profiles.
    pub fn new(
        informers: &Informers,
        configuration: &Configuration,
        register: &Register,
        attempts: Option<Arc<dyn Attempts>>,
        decider: Option<Arc<dyn CycleExtender>>,
    ) -> Result<Arc<Self>, Vec<String>> {
        let (client, waiting_pods, pod_groups) = (informers.client(), WaitingPods::default(), PodGroups::default());
        let features = &configuration.features;
        let (env, pods) = (client.env(), pods(informers));
        let handle = Handle { client, informers, env, waiting_pods: &waiting_pods, pod_groups: &pod_groups, features };
        let registry = registry(&handle, register);
        let profiles = Arc::new(Profiles::assemble(configuration, &registry)?);
        let extenders = Arc::new(Extenders::new(env, &configuration.extenders)?);
        // A decider is to see every node that fits, and not one that an equal pod has left.
        let shares_results = features.is_on(OPPORTUNISTIC_BATCHING) && decider.is_none();
        let scheduler = Arc::new(Self {
            env: env.clone(),
            client: client.clone(),
            queue: SharedQueue::new(env, profiles.clone()),
            registry,
            profiles: Mutex::new(profiles),
            extenders: Mutex::new(extenders),
            decider,
            recorders: Mutex::default(),
            cache: Mutex::default(),
            waiting_pods,
            pod_groups,
            sees_taint_rules: features.is_on(DRA_DEVICE_TAINT_RULES),
            schedules_groups: features.is_on(GENERIC_WORKLOAD),
            preempts_for_groups: features.is_on(WORKLOAD_AWARE_PREEMPTION),
            preempts_asynchronously: features.is_on(SCHEDULER_ASYNC_PREEMPTION),
            nominates_expected_nodes: features.is_on(NOMINATED_NODE_NAME_FOR_EXPECTATION),
            pods: pods.lister(),
            nodes: informers.of().lister(),
            surroundings: Surroundings::new(informers),
            metrics: SchedulerMetrics::new(env),
            batch_metrics: shares_results.then(|| BatchMetrics::new(env)),
            preemption_metrics: features.is_on(SCHEDULER_ASYNC_PREEMPTION).then(|| PreemptionMetrics::new(env)),
            group_metrics: features.is_on(GENERIC_WORKLOAD).then(|| PodGroupMetrics::new(env)),
            attempts,
            random: env.random("scheduler/ties"),
            writes: Arc::new(Semaphore::new(MAX_WRITES)),
        });
        let queue_metrics = QueueMetrics::new(env, &scheduler.metrics);
        scheduler.queue.with(|queue, _| queue.measure(queue_metrics));
        scheduler.add_event_handlers(informers, &pods);
        Ok(scheduler)
    }

    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Schedules until the environment shuts down. A new configuration takes effect between two pods.
    pub async fn run(self: Arc<Self>, mut configuration: watch::Receiver<Arc<Configuration>>) {
        let mut snapshot = Snapshot::default();
        let mut rotation = Rotation::default();
        rotation.batches = self.batch_metrics.as_ref().map(|_| Batches::default());
        let mut decided = 0_usize;
        loop {
            let queued = tokio::select! {
                biased;
                Ok(()) = configuration.changed() => {
                    let changed = configuration.borrow_and_update().clone();
                    self.reconfigure(&changed);
                    rotation.batches = self.batch_metrics.as_ref().map(|_| Batches::default());
                    continue;
                }
                queued = self.queue.pop() => queued,
            };
            let Some(queued) = queued else { return };
            self.schedule(queued, &mut snapshot, &mut rotation).await;
            decided += 1;
            // A decision without extenders does not await anything: the informers' tasks run in between.
            if decided.is_multiple_of(DECISIONS_AT_ONCE) || !self.queue.has_ready() {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Replaces the profiles and extenders. Pods that are being bound keep theirs. Pods whose scheduler name is new enter the
    /// queue.
    fn reconfigure(&self, configuration: &Configuration) {
        let extenders = Extenders::new(&self.env, &configuration.extenders);
        let assembled = extenders.and_then(|some| Ok((some, Profiles::assemble(configuration, &self.registry)?)));
        let (extenders, profiles) = match assembled {
            Ok((extenders, profiles)) => (Arc::new(extenders), Arc::new(profiles)),
            Err(errors) => return tracing::error!("the profiles stay as they are: {}", errors.join(", ")),
        };
        *self.extenders.lock() = extenders;
        *self.profiles.lock() = profiles.clone();
        self.queue.with(|queue, now| {
            queue.reconfigure(profiles, now);
            for pod in self.pods.list() {
                let is_new = node_name(&pod).is_empty() && self.is_ours(&pod) && !queue.contains(pod.uid());
                if is_new && !self.cache.lock().is_assumed(pod.uid()) {
                    let info = Arc::new(PodInfo::new(pod));
                    self.pod_groups.set_pod(&info);
                    queue.add(info, now);
                }
            }
        });
    }

    pub(crate) fn is_ours(&self, pod: &Pod) -> bool {
        self.profiles.lock().of(pod).is_some()
    }

    /// Begins a try with the pod's profile; `None` if the pod is another scheduler's now.
    fn attempt(&self, queued: QueuedPod) -> Option<Attempt> {
        let profile = self.profiles.lock().of(&queued.info.pod)?.clone();
        let recorder = self.recorder(&profile.scheduler_name);
        let extenders = self.extenders.lock().clone();
        self.attempts.iter().for_each(|attempts| attempts.begins());
        Some(Attempt { queued, profile, extenders, recorder, began: self.env.now(), kept: None })
    }

    fn recorder(&self, scheduler_name: &str) -> Arc<Recorder> {
        let mut recorders = self.recorders.lock();
        if let Some(known) = recorders.get(scheduler_name) {
            return known.clone();
        }
        let new = Arc::new(Recorder::of_series(&self.client, scheduler_name));
        recorders.insert(scheduler_name.to_owned(), new.clone());
        new
    }

    async fn schedule(self: &Arc<Self>, mut queued: QueuedPod, snapshot: &mut Snapshot, rotation: &mut Rotation) {
        if let Some(key) = queued.info.pod_group_key().filter(|_| self.schedules_groups) {
            return self.schedule_pod_group(&key, queued, snapshot, rotation).await;
        }
        let uid = queued.info.uid().to_owned();
        let wanted = self.refresh(&mut queued) && !self.cache.lock().is_assumed(&uid);
        let Some(mut attempt) = self.attempt(queued).filter(|_| wanted) else {
            return self.queue.with(|queue, _| queue.done(&uid));
        };
        let info = attempt.queued.info.clone();
        if info.pod.is_deleting() {
            attempt.recorder.record(binding::skipped_event(&info));
            return self.queue.with(|queue, _| queue.done(&uid));
        }
        self.cache.lock().update(snapshot);
        let nominated = self.queue.with(|queue, _| queue.nominated.clone());
        let (span, mut state) = (tracing::info_span!("schedule", pod = info.key), CycleState::default());
        state.timings = self.metrics.timings(&self.env);
        state.only_totals = self.attempts.is_none();
        let next_start = rotation.next_start();
        let Attempt { profile, extenders, .. } = &attempt;
        let (extender, state_now, random) =
            (self.decider.as_deref().or(extenders.in_cycle()), &mut state, &self.random);
        let decided =
            cycle::schedule_one_with(extender, profile, state_now, &info, snapshot, &nominated, rotation, random);
        let decided = decided.instrument(span).await;
        self.metrics.decided(profile, &state, &decided, self.env.now() - attempt.began);
        if let Some(metrics) = &self.batch_metrics {
            metrics.observe(profile, &state.batch);
        }
        let permit = self.permit().await;
        let (reserved, outcome) = match decided {
            Ok(mut decision) => {
                let node = std::mem::take(&mut decision.node);
                let reserved = self.reserve(&attempt, &mut state, &node);
                if self.attempts.is_some() {
                    decision.node.clone_from(&node);
                }
                (reserved.map(|()| node), Outcome::Found(decision))
            }
            Err(CycleError::Failed(message)) => (Err(Failure::because(&message)), Outcome::Failed(message)),
            Err(CycleError::NoFit(mut error)) => {
                let result =
                    cycle::post_filter(extender, profile, &mut error, &mut state, &info, snapshot, &nominated).await;
                self.count_preemption(&attempt, &result);
                let outcome = self.not_found(&error, &result);
                let nomination = result.nomination.clone();
                let evictions = Box::new(self.evictions(&info, result, &nominated));
                state.end_search();
                (Err(Failure { nomination, evictions, ..Failure::unschedulable(&error) }), outcome)
            }
        };
        self.metrics.observe(&attempt.profile, &state.timings);
        let points = std::mem::take(&mut state.timings.points);
        attempt.kept = self.keep(&attempt, points, snapshot, nominated, next_start, outcome);
        if let Some(decided) = self.settle(attempt, state, reserved) {
            self.finish(decided, permit).await;
        }
    }

    /// Puts a pod that has no node back into the queue, before the next cycle begins. Returns what is left to write.
    fn settle(&self, attempt: Attempt, state: CycleState, reserved: Result<String, Failure>) -> Option<Decided> {
        match reserved {
            Ok(node) => Some(Decided::Placed(Box::new(attempt), Box::new(state), node)),
            Err(failure) => self.fail(attempt, failure).map(Box::new).map(Decided::Failed),
        }
    }

    /// Writes what was decided about a pod in a task of its own. The next cycle waits for it only if victims are to be
    /// deleted and asynchronous preemption is off.
    async fn finish(self: &Arc<Self>, decided: Decided, permit: OwnedSemaphorePermit) {
        let scheduler = self.clone();
        match decided {
            Decided::Failed(failed) if failed.evicts() && !self.preempts_asynchronously => {
                self.write_failure(*failed).await;
                drop(permit);
            }
            Decided::Failed(failed) => drop(self.env.spawn(async move {
                scheduler.write_failure(*failed).await;
                drop(permit);
            })),
            Decided::Placed(attempt, state, node) => drop(self.env.spawn(async move {
                scheduler.bind(attempt, state, &node, permit).await;
            })),
        }
    }

    /// Updates the pod from the cache. Returns false if it needs no node any more.
    fn refresh(&self, queued: &mut QueuedPod) -> bool {
        let pod = self.pods.by_key(&queued.info.key).filter(|pod| pod.uid() == queued.info.uid());
        let Some(pod) = pod.filter(|pod| node_name(pod).is_empty()) else { return false };
        if pod.resource_version() != queued.info.pod.resource_version() {
            queued.info = Arc::new(PodInfo::new(pod));
        }
        true
    }

    /// Assumes the pod on the node, and runs the Reserve and Permit plugins. Then tries the pods again that they name.
    fn reserve(&self, attempt: &Attempt, state: &mut CycleState, node: &str) -> Result<(), Failure> {
        let (info, profile) = (&attempt.queued.info, &attempt.profile);
        self.cache.lock().assume(info.clone(), node);
        self.pod_groups.assume(info, node);
        self.queue.with(|queue, _| queue.nominated.remove(info.uid()));
        let reserved = match std::mem::take(&mut state.in_pod_group_cycle) {
            // The pod group cycle has reserved it.
            true => Ok(()),
            false => profile.run_reserve(state, info, node),
        };
        let waits = reserved.and_then(|()| profile.run_permit(state, info, node)).map_err(|rejection| {
            self.unreserve(profile, state, info, node);
            Failure::unschedulable(&FitError::rejected_on_chosen(rejection))
        })?;
        if !waits.is_empty() {
            self.waiting_pods.add(info.clone(), waits, self.env.now());
        }
        for uid in std::mem::take(&mut state.pods_to_activate) {
            self.queue.with(|queue, _| queue.force_activate(&uid));
        }
        Ok(())
    }

    /// Runs the binding cycle of one pod. While it waits in Permit, other pods may write.
    async fn bind(&self, attempt: Box<Attempt>, state: Box<CycleState>, node: &str, permit: OwnedSemaphorePermit) {
        self.metrics.binding(1);
        self.run_binding_cycle(attempt, state, node, permit).await;
        self.metrics.binding(-1);
    }

    /// What few pods need is in boxes, because each binding is a task that would carry room for it.
    async fn run_binding_cycle(
        &self,
        attempt: Box<Attempt>,
        state: Box<CycleState>,
        node: &str,
        permit: OwnedSemaphorePermit,
    ) {
        let info = attempt.queued.info.clone();
        let profile = attempt.profile.clone();
        let to_pre_bind = profile.to_pre_bind(&state, &info, node);
        if !to_pre_bind.is_empty() || self.waiting_pods.contains(info.uid()) {
            Box::pin(self.nominate_expected_node(&attempt, node)).await;
        }
        let permit = match self.waiting_pods.contains(info.uid()) {
            false => permit,
            true => {
                drop(permit);
                let began = self.env.now();
                let waited = self.waiting_pods.wait(&self.env, info.uid()).await;
                let status = waited.as_ref().map_or("Error", |result| scheduling_framework::rejection::code(result));
                self.metrics.waited(status, self.env.now() - began);
                match waited {
                    None => return,
                    Some(Ok(())) => {}
                    Some(Err(rejection)) => {
                        self.release(&attempt.profile, &state, &info, node);
                        let failure = Failure::unschedulable(&FitError::rejected_on_chosen(rejection));
                        return Box::pin(self.handle_failure(*attempt, failure)).await;
                    }
                }
                self.permit().await
            }
        };
        match self.write_binding(&attempt, to_pre_bind, &state, node, permit).await {
            Ok(()) => {
                tracing::info!(pod = info.key, node, "bound");
                self.queue.with(|queue, _| queue.done(info.uid()));
                self.ended(&attempt, AttemptResult::Scheduled, "bound");
                attempt.recorder.record(binding::scheduled_event(&info, node));
            }
            Err(error) => {
                tracing::warn!(pod = info.key, node, %error, "not bound");
                self.release(&attempt.profile, &state, &info, node);
                Box::pin(self.handle_failure(*attempt, Failure::because(&error.to_string()))).await;
            }
        }
    }

    /// Nominates a pod to its node whose binding has to wait for Permit or PreBind plugins, so that others know what is
    /// expected. See KEP-5278.
    async fn nominate_expected_node(&self, attempt: &Attempt, node: &str) {
        let info = &attempt.queued.info;
        if self.nominates_expected_nodes && info.nominated_node_name() != node {
            self.apply(info, &attempt.recorder, vec![binding::nominate(info, node)]).await;
        }
    }

    /// Runs the PreBind plugins, and binds the pod by an extender or the Bind plugins. While PreBind plugins wait, for a volume
    /// perhaps, other pods may write.
    async fn write_binding(
        &self,
        attempt: &Attempt,
        to_pre_bind: Vec<&dyn PreBind>,
        state: &CycleState,
        node: &str,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), BindError> {
        let (profile, info) = (&attempt.profile, &*attempt.queued.info);
        let began = self.env.now();
        let _permit = match to_pre_bind.is_empty() {
            true => permit,
            false => {
                drop(permit);
                for plugin in to_pre_bind {
                    let failed = |message| BindError::Plugin { point: "PreBind", plugin: plugin.name(), message };
                    plugin.pre_bind(state, info, node).await.map_err(failed)?;
                }
                self.permit().await
            }
        };
        let pre_bound = self.env.now();
        self.metrics.point(profile, &timing(Point::PreBind, "Success", pre_bound - began));
        let bound = match attempt.extenders.bind(info, node).await {
            Some(bound) => bound.map_err(BindError::Extender),
            None => profile.run_bind(state, info, node).await,
        };
        let status = if bound.is_ok() { "Success" } else { "Error" };
        self.metrics.point(profile, &timing(Point::Bind, status, self.env.now() - pre_bound));
        bound?;
        let bound = self.env.now();
        profile.run_post_bind(info, node);
        self.metrics.point(profile, &timing(Point::PostBind, "Success", self.env.now() - bound));
        Ok(())
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        self.writes.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Releases what was reserved for the pod on the node. Until its cycle ends, no other pod has been tried beside it.
    fn unreserve(&self, profile: &Profile, state: &CycleState, info: &Arc<PodInfo>, node: &str) {
        self.pod_groups.forget(info);
        let began = self.env.now();
        profile.run_unreserve(state, info, node);
        self.metrics.named_point(profile, "Unreserve", "Success", self.env.now() - began);
        self.cache.lock().forget(info.uid());
    }

    /// Releases what was reserved for a pod that is not bound, and tries other pods again that this may help.
    fn release(&self, profile: &Profile, state: &CycleState, info: &Arc<PodInfo>, node: &str) {
        self.unreserve(profile, state, info, node);
        self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodDeleted(info.clone()), now));
    }

    /// Carries out all actions. Returns false if one has failed: the pod's next cycle repeats it.
    async fn apply(&self, info: &PodInfo, recorder: &Recorder, actions: Vec<Action>) -> bool {
        let mut succeeded = true;
        for action in actions {
            if let Err(error) = client::apply_unread(&self.client, recorder, &action).await {
                tracing::warn!(pod = info.key, %error, "not written");
                succeeded &= error.cause.is_not_found();
            }
        }
        succeeded
    }
}

pub(crate) fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod cycle_tests;
#[cfg(test)]
mod pod_group_tests;
#[cfg(test)]
mod tests;
