//! Follows the objects that change how pods and nodes behave: Stages, and the ConfigMap with rules.
//!
//! The process does so under its own identity: that of a fleet, or of one node. Its role names two ConfigMaps, so each watch
//! selects one of them. On an API server without such a role, the process goes on without what it may not read, and asks again
//! after minutes.

use crate::behaviour::rules::{self, Rules};
use crate::fleet::node_tasks::NodeTask;
use crate::fleet::{BY_NODE, Fleet, pressure};
use client::{DynamicApi, DynamicObject, Event, EventSpec, EventType, Informers, ListOptions, Regarding};
use proto::Kind;
use proto::gvk::Gvr;
use proto::kinds::api::core::v1::{ConfigMap, Pod};
use stages::problem::Problem;
use stages::stage::{API_VERSION, Subject};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How often it tries to read a ConfigMap while the API server cannot be reached.
const MAPS_POLL: Duration = Duration::from_secs(1);
/// How often it asks again for what it may not read.
const REFUSED_POLL: Duration = Duration::from_secs(300);
/// How long pods wait for the rules at the start.
const RULES_WAIT: Duration = Duration::from_secs(2);
/// Events about one object: more mistakes are not reported at once.
const MAX_REPORTED: usize = 20;

/// A ConfigMap that the fleet follows.
pub(super) struct FollowedMap {
    pub namespace: &'static str,
    pub name: &'static str,
    pub on_event: fn(&Fleet, &Event<ConfigMap>),
    /// Called once the ConfigMap was read, or was found to be absent.
    pub on_read: fn(&Fleet),
}

const RULES: FollowedMap =
    FollowedMap { namespace: rules::NAMESPACE, name: rules::NAME, on_event: Fleet::on_rules, on_read: |_| {} };

impl Fleet {
    /// Follows both until the environment shuts down. Returns once the rules are known, or after a while.
    pub(super) async fn follow_behaviour(self: &Arc<Self>) {
        self.env.spawn(self.clone().follow_stages());
        self.follow_map(&RULES, RULES_WAIT).await;
    }

    /// Follows one ConfigMap. Returns once it has been read or refused, or after a while.
    pub(super) async fn follow_map(self: &Arc<Self>, map: &'static FollowedMap, wait: Duration) {
        let answered = Arc::new(Notify::new());
        self.env.spawn(self.clone().keep_following_map(map, answered.clone()));
        let _ = self.env.timeout(wait, answered.notified()).await;
    }

    async fn keep_following_map(self: Arc<Self>, map: &'static FollowedMap, answered: Arc<Notify>) {
        let fields = ListOptions::fields(format!("metadata.name={}", map.name));
        let api = self.client.dynamic(&ConfigMap::gvr(), map.namespace);
        if !self.until_readable(&api, &fields, MAPS_POLL, || answered.notify_one()).await {
            return;
        }
        let informers = Informers::new(&self.client);
        let maps = informers.of_selected::<ConfigMap>(&ListOptions { namespace: map.namespace.to_owned(), ..fields });
        let fleet = self.clone();
        maps.on_event(move |event| {
            let object = event.object();
            if object.namespace() == map.namespace && object.name() == map.name {
                (map.on_event)(&fleet, event);
            }
        });
        informers.start();
        if informers.synced().await {
            (map.on_read)(&self);
            answered.notify_one();
        }
    }

    /// Waits until a collection is served and this process may watch it; returns false on shutdown. The first refusal calls
    /// `on_refused`, and is the only one that is logged.
    async fn until_readable(
        &self,
        api: &DynamicApi,
        selection: &ListOptions,
        poll: Duration,
        on_refused: impl Fn(),
    ) -> bool {
        let options = ListOptions { timeout_s: 1, ..selection.clone() };
        let shutdown = self.env.shutdown().clone();
        let mut was_refused = false;
        loop {
            let pause = match api.watch(&options).await {
                Ok(_) => return true,
                Err(error) if error.is_forbidden() => {
                    if !std::mem::replace(&mut was_refused, true) {
                        tracing::warn!(%error, "going on without what this process may not read");
                        on_refused();
                    }
                    REFUSED_POLL
                }
                Err(_) => poll,
            };
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return false,
                () = self.env.sleep(pause) => {}
            }
        }
    }

    /// Returns the pod with the words that rules give it.
    pub(super) fn with_rules(&self, pod: Arc<Pod>) -> Arc<Pod> {
        let rules = self.rules.read().clone();
        if rules.is_empty() { pod } else { rules.applied(&pod) }
    }

    /// Returns the pods of a node, with the words that rules give them.
    pub(super) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        self.pods.by_index(BY_NODE, node).into_iter().map(|pod| self.with_rules(pod)).collect()
    }

    fn on_rules(&self, event: &Event<ConfigMap>) {
        let map = event.object();
        let (rules, problems) = match event {
            Event::Deleted(_) => (Rules::default(), Vec::new()),
            Event::Added(map) | Event::Updated { new: map, .. } => Rules::read(map),
        };
        *self.rules.write() = Arc::new(rules);
        self.report(&Regarding::of(&**map), "InvalidBehaviour", &problems);
        self.sync_all();
    }

    /// Waits until Stages are served, and follows them.
    async fn follow_stages(self: Arc<Self>) {
        let (group, version) = API_VERSION.split_once('/').unwrap_or_default();
        let gvr = Gvr::new(group, version, "stages");
        let api = self.client.dynamic(&gvr, "");
        if !self.until_readable(&api, &ListOptions::default(), self.settings.stages_poll, || {}).await {
            return;
        }
        let informers = Informers::new(&self.client);
        let fleet = self.clone();
        informers.dynamic(&gvr).on_event(move |event| fleet.on_stage(event));
        informers.start();
    }

    fn on_stage(&self, event: &Event<DynamicObject>) {
        let object = &event.object().value;
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let name = text(&object["metadata"]["name"]);
        let problems = match event {
            Event::Deleted(_) => {
                self.stages.remove(&name);
                Vec::new()
            }
            Event::Added(_) | Event::Updated { .. } => self.stages.observe(&name, object).err().unwrap_or_default(),
        };
        let regarding = Regarding {
            api_version: API_VERSION.to_owned(),
            kind: "Stage".to_owned(),
            uid: text(&object["metadata"]["uid"]),
            resource_version: text(&object["metadata"]["resourceVersion"]),
            name,
            ..Regarding::default()
        };
        self.report(&regarding, "InvalidStage", &problems);
        self.sync_all();
    }

    /// Reports the mistakes in an object with events on it. A node sends them: the fleet itself may send none. Every process
    /// that follows the object finds the same mistakes, so the events are shared: the API server keeps one of each.
    pub(super) fn report(&self, regarding: &Regarding, reason: &str, problems: &[Problem]) {
        let nodes = self.members.present();
        let reachable = nodes.iter().find(|(_, kubelet)| kubelet.power.is_reachable());
        let Some((_, kubelet)) = reachable.or(nodes.first()) else { return };
        for problem in problems.iter().take(MAX_REPORTED) {
            tracing::warn!(object = regarding.name, %problem, "{reason}");
            kubelet.recorder.record_shared(EventSpec::new(regarding, EventType::Warning, reason, problem.to_string()));
        }
    }

    /// Lets every pod and node of the fleet see what has changed.
    fn sync_all(&self) {
        for (at, kubelet) in self.members.present() {
            if self.stages.has(Subject::Node) {
                self.node_queue.add(NodeTask::PlayStage(at));
            }
            let pods = self.pods_on(&kubelet.machine.name);
            if pods.iter().any(|pod| pressure::is_watched(pod)) {
                self.watch_pressure(at);
            }
            pods.iter().for_each(|pod| self.pod_queue.add(pod.key()));
        }
    }
}
