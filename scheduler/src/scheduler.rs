//! The scheduler at work: events flow in from the informers, pods are taken from the queue one by one, and what is
//! decided is written by tasks of their own, so that the next decision does not wait for the API server.
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
use crate::plugins::volume_binding::VolumeBinding;
use crate::plugins::{self, Sources};
use crate::pod_info::PodInfo;
use crate::queue::QueuedPod;
use crate::queue::waiting::Queue;
use client::{Action, Client, Informers, ListOptions, Lister, Plan, Recorder};
use component_base::env::Env;
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Pods whose binding or failure is being written at the same time; the loop waits when there are more.
const MAX_WRITES: usize = 64;

pub struct Scheduler {
    env: Env,
    client: Client,
    profile: Arc<Profile>,
    queue: Queue,
    cache: Mutex<Cache>,
    pods: Lister<Pod>,
    recorder: Recorder,
    random: Random,
    writes: Arc<Semaphore>,
}

impl Scheduler {
    /// Wires informers, cache and queue together. Nothing is scheduled before `run`.
    pub fn new(client: &Client, settings: &Settings, env: &Env, informers: &Informers) -> Arc<Self> {
        // Pods that have ended hold nothing; to the watch they look deleted.
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
                claims: informers.of().lister(),
                volumes: informers.of().lister(),
                classes: informers.of().lister(),
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
            queue: Queue::new(env, profile.clone()),
            profile,
            cache: Mutex::default(),
            pods: pods.lister(),
            recorder: Recorder::new(client, &settings.scheduler_name, ""),
            random: env.random("scheduler/ties"),
            writes: Arc::new(Semaphore::new(MAX_WRITES)),
        });
        scheduler.listen(informers, &pods);
        scheduler
    }

    /// Schedules until the environment shuts down.
    pub async fn run(self: Arc<Self>) {
        let mut snapshot = Snapshot::default();
        let mut rotation = Rotation::default();
        while let Some(queued) = self.queue.pop().await {
            self.schedule(queued, &mut snapshot, &mut rotation).await;
            // Decisions are quick; let the informers have their turn between them.
            tokio::task::yield_now().await;
        }
    }

    async fn schedule(self: &Arc<Self>, mut queued: QueuedPod, snapshot: &mut Snapshot, rotation: &mut Rotation) {
        let uid = queued.info.uid().to_owned();
        let wanted = self.refresh(&mut queued) && !self.cache.lock().is_assumed(&uid);
        let info = queued.info.clone();
        if !wanted || info.pod.is_deleting() {
            if wanted {
                self.recorder.record(binding::skipped(&info));
            }
            return self.queue.with(|queue, _| queue.done(&uid));
        }
        self.cache.lock().update(snapshot);
        let nominated = self.queue.with(|queue, _| queue.nominated.clone());
        let (span, mut state) = (tracing::info_span!("schedule", pod = info.key), CycleState::default());
        let decided = span.in_scope(|| {
            cycle::schedule_one(&self.profile, &mut state, &info, snapshot, &nominated, rotation, &self.random)
        });
        let permit = self.writes.clone().acquire_owned().await.expect("the semaphore is never closed");
        let reserved = match decided {
            Ok(decision) => self.reserve(&info, &mut state, &decision.node).map(|()| decision.node),
            Err(mut error) => {
                let made = self.profile.run_post_filters(&mut error, &state, &info, snapshot, &nominated);
                let evictions = match &made.nomination {
                    Nomination::Node(node) => {
                        let behind: Vec<_> = nominated.behind(&info, node).cloned().collect();
                        binding::make_room(&info, &made.victims, &behind, node, self.env.wall())
                    }
                    Nomination::Keep | Nomination::Clear => Vec::new(),
                };
                Err(Failure { nomination: made.nomination, evictions, ..Failure::unschedulable(&error) })
            }
        };
        let scheduler = self.clone();
        self.env.spawn(async move {
            match reserved {
                Ok(node) => scheduler.bind(queued, state, &node).await,
                Err(failure) => scheduler.give_back(queued, failure).await,
            }
            drop(permit);
        });
    }

    /// Brings the pod up to date. False if it needs no node any more.
    fn refresh(&self, queued: &mut QueuedPod) -> bool {
        let pod = self.pods.by_key(&queued.info.key).filter(|pod| pod.uid() == queued.info.uid());
        let Some(pod) = pod.filter(|pod| node_name(pod).is_empty()) else { return false };
        if pod.resource_version() != queued.info.pod.resource_version() {
            queued.info = Arc::new(PodInfo::new(pod));
        }
        true
    }

    /// Counts the pod to the node from now on, and lets plugins claim what it will use there.
    fn reserve(&self, info: &Arc<PodInfo>, state: &mut CycleState, node: &str) -> Result<(), Failure> {
        self.cache.lock().assume(info.clone(), node);
        self.queue.with(|queue, _| queue.nominated.remove(info.uid()));
        let reserved = self.profile.run_reserve(state, info, node);
        reserved.and_then(|()| self.profile.run_permit(state, info, node)).map_err(|rejection| {
            self.undo(state, info, node);
            Failure::unschedulable(&FitError::rejected_on(node, rejection))
        })
    }

    /// The binding cycle of one pod.
    async fn bind(&self, queued: QueuedPod, state: CycleState, node: &str) {
        let info = queued.info.clone();
        match self.profile.run_bind(&info, node).await {
            Ok(()) => {
                tracing::info!(pod = info.key, node, "bound");
                self.queue.with(|queue, _| queue.done(info.uid()));
                self.recorder.record(binding::bound(&info, node));
            }
            Err(error) => {
                tracing::warn!(pod = info.key, node, %error, "not bound");
                self.undo(&state, &info, node);
                self.give_back(queued, Failure::error(&error)).await;
            }
        }
    }

    /// Gives back what the pod had claimed on the node; others may use it now.
    fn undo(&self, state: &CycleState, info: &Arc<PodInfo>, node: &str) {
        self.profile.run_unreserve(state, info, node);
        self.cache.lock().forget(info.uid());
        self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodDeleted(info.clone()), now));
    }

    /// The pod waits for its next try, and the world is told why. One that makes room for itself waits until all of
    /// those who are in its way have been told to go: what happens meanwhile counts as if it happened then.
    async fn give_back(&self, mut queued: QueuedPod, failure: Failure) {
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
        let told = binding::failed(&info, reason, &message, &nomination, self.env.wall());
        if evictions.is_empty() {
            self.queue.with(|queue, now| queue.add_unschedulable(queued, rejected_by, now));
            self.apply(&info, told).await;
            return;
        }
        self.apply(&info, told).await;
        let evicted = self.apply(&info, evictions).await;
        self.queue.with(|queue, now| {
            queue.add_unschedulable(queued, rejected_by, now);
            if !evicted {
                queue.force(&uid); // nothing may ever happen to wake it
            }
        });
    }

    /// Carries actions out, all of them; whether none has failed. What fails here is tried again with the pod's next
    /// cycle.
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

/// Why a pod has no node, and what is done about it.
struct Failure {
    reason: &'static str,
    message: String,
    /// Empty if nobody is to blame: it is tried again after its back-off.
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
