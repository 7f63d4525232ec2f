//! The scheduler at work: events flow in from the informers, pods are taken from the queue one by one, and what is
//! decided is written by tasks of their own, so that the next decision does not wait for the API server.
//!
//! Corresponds to pkg/scheduler/scheduler.go and eventhandlers.go.

use crate::binding;
use crate::cache::{Cache, Snapshot};
use crate::config::Settings;
use crate::cycle::{self, Rotation};
use crate::framework::{ClusterEvent, CycleState, FitError, Profile};
use crate::plugins::default_binder::DefaultBinder;
use crate::plugins::default_selector::Workloads;
use crate::plugins::volume_binding::VolumeBinding;
use crate::plugins::{self, Sources};
use crate::pod_info::PodInfo;
use crate::queue::waiting::Queue;
use crate::queue::{QueuedPod, SchedulingQueue};
use client::{Action, Client, Event, Informers, ListOptions, Lister, Plan, Recorder};
use component_base::env::Env;
use component_base::rng::Random;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use proto::kinds::api::storage::v1::StorageClass;
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
        };
        let mut profile = plugins::default_profile(sources, Arc::new(DefaultBinder { client: client.clone() }));
        profile.scheduler_name.clone_from(&settings.scheduler_name);
        let profile = Arc::new(profile);
        let scheduler = Arc::new(Self {
            env: env.clone(),
            client: client.clone(),
            queue: Queue::new(env, SchedulingQueue::new(profile.clone())),
            profile,
            cache: Mutex::default(),
            pods: pods.lister(),
            recorder: Recorder::new(client, &settings.scheduler_name, ""),
            random: env.random("scheduler/ties"),
            writes: Arc::new(Semaphore::new(MAX_WRITES)),
        });
        let handler = scheduler.clone();
        pods.on_event(move |event| handler.on_pod(event));
        let handler = scheduler.clone();
        informers.of::<Node>().on_event(move |event| handler.on_node(event));
        let handler = scheduler.clone();
        informers.of::<Namespace>().on_event(move |event| handler.on_namespace(event));
        scheduler.watch_volumes(informers);
        scheduler
    }

    fn watch_volumes(self: &Arc<Self>, informers: &Informers) {
        let tell = |scheduler: &Arc<Self>| {
            let scheduler = scheduler.clone();
            move || scheduler.queue.with(|queue, now| queue.on_event(&ClusterEvent::VolumesChanged, now))
        };
        let changed = tell(self);
        informers.of::<PersistentVolumeClaim>().on_event(move |_| changed());
        let changed = tell(self);
        informers.of::<PersistentVolume>().on_event(move |_| changed());
        let changed = tell(self);
        informers.of::<StorageClass>().on_event(move |_| changed());
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
        // It may have changed or gone since it was queued.
        let present = self.pods.by_key(&queued.info.key).filter(|pod| pod.uid() == uid && !pod.is_deleting());
        let present = present.filter(|_| !self.cache.lock().is_assumed(&uid));
        let Some(pod) = present.filter(|pod| node_name(pod).is_empty()) else {
            return self.queue.with(|queue, _| queue.done(&uid));
        };
        if pod.resource_version() != queued.info.pod.resource_version() {
            queued.info = Arc::new(PodInfo::new(pod));
        }
        let info = queued.info.clone();
        self.cache.lock().update(snapshot);
        let nominated = self.queue.with(|queue, _| queue.nominated.clone());
        let span = tracing::info_span!("schedule", pod = info.key);
        let decided =
            span.in_scope(|| cycle::schedule_one(&self.profile, &info, snapshot, &nominated, rotation, &self.random));
        let permit = self.writes.clone().acquire_owned().await.expect("the semaphore is never closed");
        let scheduler = self.clone();
        match decided {
            Ok((decision, mut state)) => {
                let node = decision.node;
                self.cache.lock().assume(info.clone(), &node);
                let reserved = self.profile.run_reserve(&mut state, &info, &node);
                if let Err(rejection) = reserved.and_then(|()| self.profile.run_permit(&state, &info, &node)) {
                    self.undo(&state, &info, &node);
                    let message = format!("{} rejected the pod: {}", rejection.plugin, rejection.reasons.join(", "));
                    let actions = binding::failed(&info, binding::UNSCHEDULABLE, &message, None, self.env.wall());
                    self.queue.with(|queue, now| queue.add_unschedulable(queued, [rejection.plugin].into(), now));
                    return self.write(info, actions, permit);
                }
                self.env.spawn(async move {
                    scheduler.bind(queued, state, &node).await;
                    drop(permit);
                });
            }
            Err(error) => {
                let actions = self.give_up(queued, error, snapshot, &nominated);
                self.write(info, actions, permit);
            }
        }
    }

    /// The binding cycle of one pod.
    async fn bind(&self, queued: QueuedPod, state: CycleState, node: &str) {
        let info = queued.info.clone();
        match self.profile.run_bind(&info, node).await {
            Ok(()) => {
                tracing::info!(pod = info.key, node, "bound");
                self.queue.with(|queue, _| {
                    queue.nominated.remove(info.uid());
                    queue.done(info.uid());
                });
                self.recorder.record(binding::bound(&info, node));
            }
            Err(error) => {
                tracing::warn!(pod = info.key, node, %error, "not bound");
                self.undo(&state, &info, node);
                let gone = self.pods.by_key(&info.key).is_none_or(|pod| pod.uid() != info.uid());
                if gone {
                    return self.queue.with(|queue, _| queue.done(info.uid()));
                }
                // Nobody to blame and nothing to wait for: it is tried again after its back-off.
                self.queue.with(|queue, now| queue.add_unschedulable(queued, BTreeSet::new(), now));
                let message = format!("binding rejected: {error}");
                let actions = binding::failed(&info, binding::SCHEDULER_ERROR, &message, None, self.env.wall());
                self.apply(&info, actions).await;
            }
        }
    }

    /// Gives back what the pod had claimed on the node; others may use it now.
    fn undo(&self, state: &CycleState, info: &Arc<PodInfo>, node: &str) {
        self.profile.run_unreserve(state, info, node);
        self.cache.lock().forget(info.uid());
        self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodDeleted(info.clone()), now));
    }

    /// No node: asks the PostFilter plugins for one, and puts the pod back to wait.
    fn give_up(
        &self,
        queued: QueuedPod,
        mut error: FitError,
        snapshot: &Snapshot,
        nominated: &crate::framework::Nominated,
    ) -> Vec<Action> {
        let (info, now) = (queued.info.clone(), self.env.wall());
        let mut actions = Vec::new();
        // A nomination that has come to nothing is taken back, or others would wait for this pod.
        let mut nominate = (!info.nominated_node_name().is_empty()).then(String::new);
        if let FitError::NoFit { diagnosis, post_filter_message, .. } = &mut error {
            for plugin in &self.profile.post_filter {
                let result = plugin.post_filter(&self.profile, &info, snapshot, diagnosis, nominated);
                *post_filter_message = result.message;
                if let Some(node) = result.nominated_node {
                    actions = binding::evict(&info, &result.victims, &node, &self.profile.scheduler_name, now);
                    nominate = Some(node);
                    break;
                }
            }
        }
        let message = error.to_string();
        tracing::info!(pod = info.key, message, "unschedulable");
        actions.extend(binding::failed(&info, binding::UNSCHEDULABLE, &message, nominate.as_deref(), now));
        self.queue.with(|queue, now| {
            if let Some(node) = &nominate {
                queue.nominated.set(info.clone(), node);
            }
            queue.add_unschedulable(queued, error.plugins(), now);
        });
        actions
    }

    /// Carries actions out beside the loop.
    fn write(self: &Arc<Self>, info: Arc<PodInfo>, actions: Vec<Action>, permit: tokio::sync::OwnedSemaphorePermit) {
        let scheduler = self.clone();
        self.env.spawn(async move {
            scheduler.apply(&info, actions).await;
            drop(permit);
        });
    }

    /// What fails here is tried again with the pod's next cycle.
    async fn apply(&self, info: &PodInfo, actions: Vec<Action>) {
        for action in actions {
            let plan = Plan { actions: vec![action], ..Plan::default() };
            if let Err(error) = client::apply(&self.client, &self.recorder, &plan).await {
                tracing::warn!(pod = info.key, %error, "not written");
            }
        }
    }

    fn on_pod(&self, event: &Event<Pod>) {
        match event {
            Event::Added(pod) => self.pod_added(pod),
            Event::Updated { old, new } if old.uid() != new.uid() => {
                self.pod_deleted(old);
                self.pod_added(new);
            }
            Event::Updated { old, new } if node_name(old).is_empty() && !node_name(new).is_empty() => {
                self.queue.with(|queue, _| queue.remove(new.uid()));
                self.pod_added(new);
            }
            Event::Updated { old, new } if !node_name(new).is_empty() => {
                let (old, new) = (Arc::new(PodInfo::new(old.clone())), Arc::new(PodInfo::new(new.clone())));
                self.cache.lock().set_pod(new.clone());
                self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodUpdated { old, new }, now));
            }
            Event::Updated { old, new } => {
                if self.is_ours(new) && !self.cache.lock().is_assumed(new.uid()) {
                    let (old, new) = (Arc::new(PodInfo::new(old.clone())), Arc::new(PodInfo::new(new.clone())));
                    self.queue.with(|queue, now| queue.update(old, new, now));
                }
            }
            Event::Deleted(pod) => self.pod_deleted(pod),
        }
    }

    fn is_ours(&self, pod: &Pod) -> bool {
        let name = pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref());
        name.unwrap_or(plugins::DEFAULT_SCHEDULER) == self.profile.scheduler_name
    }

    fn pod_added(&self, pod: &Arc<Pod>) {
        let info = Arc::new(PodInfo::new(pod.clone()));
        if !info.node_name().is_empty() {
            self.cache.lock().set_pod(info.clone());
            self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodAdded(info), now));
        } else if self.is_ours(pod) && !pod.is_deleting() {
            self.queue.with(|queue, now| queue.add(info, now));
        }
    }

    fn pod_deleted(&self, pod: &Arc<Pod>) {
        self.queue.with(|queue, _| queue.remove(pod.uid()));
        self.cache.lock().remove_pod(pod.uid());
        if !node_name(pod).is_empty() {
            let info = Arc::new(PodInfo::new(pod.clone()));
            self.queue.with(|queue, now| queue.on_event(&ClusterEvent::AssignedPodDeleted(info), now));
        }
    }

    fn on_node(&self, event: &Event<Node>) {
        let event = match event {
            Event::Added(node) => {
                self.cache.lock().set_node(node.clone());
                ClusterEvent::NodeAdded(node.clone())
            }
            Event::Updated { old, new } => {
                self.cache.lock().set_node(new.clone());
                ClusterEvent::NodeUpdated { old: old.clone(), new: new.clone() }
            }
            Event::Deleted(node) => return self.cache.lock().remove_node(node.name()),
        };
        self.queue.with(|queue, now| queue.on_event(&event, now));
    }

    fn on_namespace(&self, event: &Event<Namespace>) {
        match event {
            Event::Deleted(namespace) => self.cache.lock().remove_namespace(namespace.name()),
            _ => self.cache.lock().set_namespace(event.object()),
        }
        self.queue.with(|queue, now| queue.on_event(&ClusterEvent::NamespaceChanged, now));
    }
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|s| s.node_name.as_deref()).unwrap_or_default()
}
