//! Follows the objects that change how pods and nodes behave: Stages, and the ConfigMap with rules.
//!
//! Only the identity of a fleet may read them. A process with the identity of one node does not try: the Node authorizer
//! shows a node only the ConfigMaps that its own pods use, and no custom resources.

use crate::behaviour::rules::{self, Rules};
use crate::fleet::node_tasks::NodeTask;
use crate::fleet::{BY_NODE, Fleet, pressure};
use client::{DynamicObject, Event, EventType, Informers, ListOptions, Regarding};
use proto::Kind;
use proto::gvk::Gvr;
use proto::kinds::api::core::v1::{ConfigMap, Pod};
use stages::problem::Problem;
use stages::stage::{API_VERSION, Subject};
use std::sync::Arc;
use std::time::Duration;

/// How often the process looks whether the CustomResourceDefinition of Stages is there.
const STAGES_POLL: Duration = Duration::from_secs(10);
/// How long pods wait for the rules at the start. A fleet that may not read them does not wait for ever.
const RULES_WAIT: Duration = Duration::from_secs(2);
/// Events about one object: more mistakes are not reported at once.
const MAX_REPORTED: usize = 20;

impl Fleet {
    /// Follows both until the environment shuts down. Returns once the rules are known, or after a while.
    pub(super) async fn follow_behaviour(self: &Arc<Self>) {
        if self.settings.own_node().is_some() {
            return;
        }
        self.env.spawn(self.clone().follow_stages());
        self.follow_map(rules::NAMESPACE, rules::NAME, RULES_WAIT, Self::on_rules).await;
    }

    /// Follows one ConfigMap. Returns once it has been read, or after a while.
    pub(super) async fn follow_map(
        self: &Arc<Self>,
        namespace: &'static str,
        name: &'static str,
        wait: Duration,
        handle: fn(&Self, &Event<ConfigMap>),
    ) {
        let informers = Informers::new(&self.client);
        let only =
            ListOptions { namespace: namespace.to_owned(), ..ListOptions::fields(format!("metadata.name={name}")) };
        let maps = informers.of_selected::<ConfigMap>(&only);
        let fleet = self.clone();
        maps.on_event(move |event| {
            let map = event.object();
            if map.namespace() == namespace && map.name() == name {
                handle(&fleet, event);
            }
        });
        informers.start();
        let _ = self.env.timeout(wait, informers.synced()).await;
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
        let options = ListOptions { timeout_s: 1, ..ListOptions::default() };
        let shutdown = self.env.shutdown().clone();
        while api.watch(&options).await.is_err() {
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.env.sleep(STAGES_POLL) => {}
            }
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

    /// Reports the mistakes in an object with events on it. A node sends them: the fleet itself may send none.
    pub(super) fn report(&self, regarding: &Regarding, reason: &str, problems: &[Problem]) {
        let nodes = self.members.present();
        let reachable = nodes.iter().find(|(_, kubelet)| kubelet.power.is_reachable());
        let Some((_, kubelet)) = reachable.or(nodes.first()) else { return };
        for problem in problems.iter().take(MAX_REPORTED) {
            tracing::warn!(object = regarding.name, %problem, "{reason}");
            kubelet.recorder.event(regarding, EventType::Warning, reason, problem.to_string());
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
