//! `Scheduler` takes pods from the queue one by one and schedules them. Each decision is written by its own task, so
//! that the next one does not wait for the API server.
//!
//! Corresponds to pkg/scheduler/scheduler.go and the outer half of schedule_one.go.

mod event_handlers;

use crate::binding;
use crate::cache::{Cache, Snapshot};
use crate::config::Settings;
use crate::cycle::{self, Rotation};
use crate::framework::{BindError, ClusterEvent, CycleState, FitError, Nomination, Profile};
use crate::plugins::default_binder::DefaultBinder;
use crate::plugins::default_selector::Workloads;
use crate::plugins::volume_binding::{self, VolumeBinding};
use crate::plugins::{self, Sources};
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::queue::shared::SharedQueue;
use client::{Action, Client, Informers, ListOptions, Lister, Plan, Recorder};
use component_base::env::Env;
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limit on concurrent writes of bindings and failures. Beyond it the loop waits.
const MAX_WRITES: usize = 64;

pub struct Scheduler {
    env: Env,
    client: Client,
    profile: Arc<Profile>,
    queue: SharedQueue,
    cache: Mutex<Cache>,
    pods: Lister<Pod>,
    recorder: Recorder,
    random: Random,
    writes: Arc<Semaphore>,
}

impl Scheduler {
    /// Connects informers, cache and queue. Nothing is scheduled before `run`.
    pub fn new(client: &Client, settings: &Settings, env: &Env, informers: &Informers) -> Arc<Self> {
        // Terminal pods use no resources. For this watch they are deleted.
        let selection = ListOptions::fields("status.phase!=Succeeded,status.phase!=Failed");
        let pods = informers.of_selected::<Pod>(&selection);
        let sources = Sources {
            workloads: Workloads {
                services: informers.of().lister(),
                replication_controllers: informers.of().lister(),
                replica_sets: informers.of().lister(),
                stateful_sets: informers.of().lister(),
            },
            volumes: VolumeBinding {
                sources: volume_binding::Sources::new(informers, pods.lister()),
                writer: Some((client.clone(), env.clone())),
            },
            budgets: informers.of().lister(),
            random: env.random("scheduler/preemption"),
        };
        let mut profile = plugins::default_profile(sources, Arc::new(DefaultBinder { client: client.clone() }));
        profile.scheduler_name.clone_from(&settings.scheduler_name);
        settings.plugins.apply(&mut profile);
        let profile = Arc::new(profile);
        let scheduler = Arc::new(Self {
            env: env.clone(),
            client: client.clone(),
            queue: SharedQueue::new(env, profile.clone()),
            profile,
            cache: Mutex::default(),
            pods: pods.lister(),
            recorder: Recorder::new(client, &settings.scheduler_name, ""),
            random: env.random("scheduler/ties"),
            writes: Arc::new(Semaphore::new(MAX_WRITES)),
        });
        scheduler.add_event_handlers(informers, &pods);
        scheduler
    }

    /// Schedules until the environment shuts down.
    pub async fn run(self: Arc<Self>) {
        let mut snapshot = Snapshot::default();
        let mut rotation = Rotation::default();
        while let Some(queued) = self.queue.pop().await {
            self.schedule(queued, &mut snapshot, &mut rotation).await;
            // A decision does not await anything: the informers' tasks run in between.
            tokio::task::yield_now().await;
        }
    }

    async fn schedule(self: &Arc<Self>, mut queued: QueuedPod, snapshot: &mut Snapshot, rotation: &mut Rotation) {
        let uid = queued.info.uid().to_owned();
        let wanted = self.refresh(&mut queued) && !self.cache.lock().is_assumed(&uid);
        let info = queued.info.clone();
        if !wanted || info.pod.is_deleting() {
            if wanted {
                self.recorder.record(binding::skipped_event(&info));
            }
            return self.queue.with(|queue, _| queue.done(&uid));
        }
        self.cache.lock().update(snapshot);
        let nominated = self.queue.with(|queue, _| queue.nominated.clone());
        let (span, mut state) = (tracing::info_span!("schedule", pod = info.key), CycleState::default());
        let decided = span.in_scope(|| {
            cycle::schedule_one(&self.profile, &mut state, &info, snapshot, &nominated, rotation, &self.random)
        });
        let permit = self.permit().await;
        let reserved = match decided {
            Ok(decision) => self.reserve(&info, &mut state, &decision.node).map(|()| decision.node),
            Err(mut error) => {
                let result = self.profile.run_post_filters(&mut error, &state, &info, snapshot, &nominated);
                let evictions = match &result.nomination {
                    Nomination::Node(node) => {
                        let lower: Vec<_> = nominated.of_lower_priority(&info, node).cloned().collect();
                        binding::evict_victims(&info, &result.victims, &lower, node, self.env.wall())
                    }
                    Nomination::Keep | Nomination::Clear => Vec::new(),
                };
                Err(Failure { nomination: result.nomination, evictions, ..Failure::unschedulable(&error) })
            }
        };
        let scheduler = self.clone();
        self.env.spawn(async move {
            match reserved {
                Ok(node) => scheduler.bind(queued, state, &node, permit).await,
                Err(failure) => {
                    scheduler.handle_failure(queued, failure).await;
                    drop(permit);
                }
            }
        });
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

    /// Assumes the pod on the node, and runs the Reserve and Permit plugins.
    fn reserve(&self, info: &Arc<PodInfo>, state: &mut CycleState, node: &str) -> Result<(), Failure> {
        self.cache.lock().assume(info.clone(), node);
        self.queue.with(|queue, _| queue.nominated.remove(info.uid()));
        let reserved = self.profile.run_reserve(state, info, node);
        reserved.and_then(|()| self.profile.run_permit(state, info, node)).map_err(|rejection| {
            self.unreserve(state, info, node);
            Failure::unschedulable(&FitError::rejected_on(node, rejection))
        })
    }

    /// Runs the binding cycle of one pod.
    async fn bind(&self, queued: QueuedPod, state: CycleState, node: &str, permit: OwnedSemaphorePermit) {
        let info = queued.info.clone();
        match self.write_binding(&info, &state, node, permit).await {
            Ok(()) => {
                tracing::info!(pod = info.key, node, "bound");
                self.queue.with(|queue, _| queue.done(info.uid()));
                self.recorder.record(binding::scheduled_event(&info, node));
            }
            Err(error) => {
                tracing::warn!(pod = info.key, node, %error, "not bound");
                self.unreserve(&state, &info, node);
                self.handle_failure(queued, Failure::error(&error)).await;
            }
        }
    }

    /// Runs the PreBind and Bind plugins. While PreBind plugins wait, for a volume perhaps, other pods may write.
    async fn write_binding(
        &self,
        info: &PodInfo,
        state: &CycleState,
        node: &str,
        permit: OwnedSemaphorePermit,
    ) -> Result<(), BindError> {
        let to_pre_bind = self.profile.to_pre_bind(state, info, node);
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
        self.profile.run_bind(info, node).await
    }

    async fn permit(&self) -> OwnedSemaphorePermit {
        self.writes.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    /// Releases what was reserved for the pod on the node, and tries pods again that this may help.
    fn unreserve(&self, state: &CycleState, info: &Arc<PodInfo>, node: &str) {
        self.profile.run_unreserve(state, info, node);
        self.cache.lock().forget(info.uid());
        self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodDeleted(info.clone()), now));
    }

    /// Adds the pod to the unschedulable queue, and writes the reason. A preempting pod stays in flight until its
    /// evictions are written, so that the events of the deletions count for it.
    async fn handle_failure(&self, mut queued: QueuedPod, failure: Failure) {
        let Failure { reason, message, rejected_by, nomination, evictions } = failure;
        let uid = queued.info.uid().to_owned();
        if !self.refresh(&mut queued) {
            return self.queue.with(|queue, _| queue.done(&uid));
        }
        let info = queued.info.clone();
        tracing::info!(pod = info.key, message, "unschedulable");
        let nominated = match &nomination {
            Nomination::Keep => info.nominated_node_name(),
            Nomination::Clear => "",
            Nomination::Node(node) => node,
        };
        self.queue.with(|queue, _| queue.nominated.set(info.clone(), nominated));
        let actions = binding::failure_actions(&info, reason, &message, &nomination, self.env.wall());
        if evictions.is_empty() {
            self.queue.with(|queue, now| queue.add_unschedulable(queued, rejected_by, now));
            self.apply(&info, actions).await;
            return;
        }
        self.apply(&info, actions).await;
        let evicted = self.apply(&info, evictions).await;
        self.queue.with(|queue, now| {
            queue.add_unschedulable(queued, rejected_by, now);
            if !evicted {
                queue.force_activate(&uid); // no event may follow
            }
        });
    }

    /// Carries out all actions. Returns false if one has failed: the pod's next cycle repeats it.
    async fn apply(&self, info: &PodInfo, actions: Vec<Action>) -> bool {
        let mut succeeded = true;
        for action in actions {
            let plan = Plan { actions: vec![action], ..Plan::default() };
            if let Err(error) = client::apply(&self.client, &self.recorder, &plan).await {
                tracing::warn!(pod = info.key, %error, "not written");
                succeeded &= error.cause.is_not_found();
            }
        }
        succeeded
    }
}

/// The reason for which a pod was not scheduled, and the preemption that follows.
struct Failure {
    reason: &'static str,
    message: String,
    /// The plugins that rejected the pod. Empty after an error: then it is tried again after its back-off.
    rejected_by: BTreeSet<&'static str>,
    nomination: Nomination,
    evictions: Vec<Action>,
}

impl Failure {
    fn unschedulable(error: &FitError) -> Self {
        Self {
            reason: binding::UNSCHEDULABLE,
            message: error.to_string(),
            rejected_by: error.plugins(),
            nomination: Nomination::Clear,
            evictions: Vec::new(),
        }
    }

    fn error(error: &BindError) -> Self {
        Self {
            reason: binding::SCHEDULER_ERROR,
            message: error.to_string(),
            rejected_by: BTreeSet::new(),
            nomination: Nomination::Clear,
            evictions: Vec::new(),
        }
    }
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}
