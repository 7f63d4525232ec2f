//! `ModelledApi`: the pods and nodes of a cluster, changed by requests and by time.
//!
//! Every change is in the scheduler's informers before the call that makes it returns, and is kept for the owner of the
//! model, who asks for `changes`. What is due happens when the owner waits for them.

mod machines;
mod kubelet;

use crate::answered::Answered;
use crate::fleet::{Condition, Fleet};
use crate::life::Course;
use crate::objects::ReadObjects;
use crate::pod;
use crate::requests::{self, Pods};
use client::{Client, Informer, Informers, ListOptions};
use component_base::env::Env;
use component_base::http::{Body, HttpService};
use http::Request;
use kubelet_sim::machines::failure_model::FailureModel;
use kubelet_sim::plan::NodePlan;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{Namespace, Node, Pod};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What the model is made of.
pub struct Settings {
    pub namespaces: BTreeSet<String>,
    pub nodes: Vec<NodePlan>,
    pub failures: Vec<FailureModel>,
    /// Time of a request, of the scheduler and of others.
    pub request: Duration,
    /// How often nodes report their images.
    pub report_every: Duration,
    /// Time after which a node that does not answer counts as lost.
    pub node_grace: Duration,
}

/// A write that the owner of the model sees.
#[derive(Clone, Debug)]
pub enum Change {
    Node {
        name: String,
        is_ready: bool,
    },
    /// The pod as it is now; `None` when it is gone.
    Pod {
        key: String,
        pod: Option<Arc<Pod>>,
    },
}

/// What is due at some time. Pods are named by key and number, because a later pod may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The kubelet of a bound pod has read what it needs.
    Sync(String, u64),
    Admit(String, u64),
    /// The container with this index may start; all run if there is none.
    Container(String, u64, usize),
    Start(String, u64),
    End(String, u64),
    /// A deleted pod has ended.
    Stop(String, u64),
    Remove(String, u64),
    Failures,
    /// A machine that has started registers its node.
    Register(String),
    Leave(String),
    Unreachable(String, u64),
    Reached(String, u64),
    Evict(String, u64),
    Report,
}

struct Held {
    pod: Arc<Pod>,
    /// Tells this pod from others of its name.
    number: u64,
    /// What its node does with it, once it has begun.
    course: Option<Course>,
    /// True once the node has lost its containers.
    is_lost: bool,
}

pub struct ModelledApi {
    pub(crate) env: Env,
    pub(crate) request: Duration,
    /// The scheduler's requests.
    pub answered: Answered,
    state: Mutex<State>,
    changed: Notify,
}

struct State {
    env: Env,
    began: Instant,
    request: Duration,
    report_every: Duration,
    node_grace: Duration,
    pods: BTreeMap<String, Held>,
    on_node: BTreeMap<String, BTreeSet<String>>,
    /// Reports of nodes that are cut off, until they are reached again.
    unreported: BTreeMap<String, Vec<Due>>,
    fleet: Fleet,
    /// What nodes have read for pods.
    read: ReadObjects,
    revision: u64,
    created: u64,
    due: BinaryHeap<Reverse<(Instant, u64, Due)>>,
    /// Number of entries ever in `due`, which orders those of one time.
    planned: u64,
    changes: Vec<Change>,
    pod_informer: Informer<Pod>,
    node_informer: Informer<Node>,
}

impl ModelledApi {
    /// Makes the model in the environment of the scheduler, with the informers that the scheduler is to use. `env` is that of
    /// the nodes.
    pub fn new(scheduler: &Env, env: &Env, settings: Settings) -> Result<(Arc<Self>, Informers), String> {
        let Settings { namespaces, nodes, failures, request, report_every, node_grace } = settings;
        // The service needs the model, and the informers need a client of the service.
        let shared: Arc<OnceLock<Weak<ModelledApi>>> = Arc::default();
        let client = Client::from_service(scheduler, service(&shared), "scheduler").without_events();
        let informers = Informers::new(&client).without_server();
        let random = env.clone();
        let random = move |stream: &str| random.random(&format!("kubelet-sim/failures/{stream}"));
        let fleet = Fleet::new(nodes, failures, random, env.wall())?;
        let mut state = State {
            env: env.clone(),
            began: env.now(),
            request,
            report_every,
            node_grace,
            pods: BTreeMap::new(),
            on_node: BTreeMap::new(),
            unreported: BTreeMap::new(),
            fleet,
            read: ReadObjects::default(),
            revision: 1,
            created: 0,
            due: BinaryHeap::new(),
            planned: 0,
            changes: Vec::new(),
            pod_informer: informers.of_selected(&ListOptions::fields("status.phase!=Succeeded,status.phase!=Failed")),
            node_informer: informers.of(),
        };
        state.open(&informers, &namespaces)?;
        let api = Arc::new(Self {
            env: env.clone(),
            request,
            answered: Answered::default(),
            state: Mutex::new(state),
            changed: Notify::new(),
        });
        shared.get_or_init(|| Arc::downgrade(&api));
        Ok((api, informers))
    }

    /// Creates a pod now.
    pub fn create(&self, pod: &Value) -> Result<(), String> {
        self.state.lock().create(pod)?;
        self.changed.notify_one();
        Ok(())
    }

    /// Lets machines start. They register after the time that this takes.
    pub fn join(&self, plans: Vec<NodePlan>) -> Result<(), String> {
        self.state.lock().join(plans)?;
        self.changed.notify_one();
        Ok(())
    }

    /// Lets a machine leave for good. Its node is deleted, and the pods on it are.
    pub fn leave(&self, node: &str) {
        let mut state = self.state.lock();
        state.order_to_leave(node);
        drop(state);
        self.changed.notify_one();
    }

    /// Waits until something has changed, and returns it. Nothing is lost when the future is dropped.
    pub async fn changes(&self) -> Vec<Change> {
        loop {
            let next = {
                let mut state = self.state.lock();
                state.advance();
                if !state.changes.is_empty() {
                    return std::mem::take(&mut state.changes);
                }
                state.due.peek().map(|Reverse((at, _, _))| *at)
            };
            let notified = self.changed.notified();
            match next {
                Some(at) => {
                    tokio::select! {
                        biased;
                        () = notified => {}
                        () = self.env.sleep_until(at) => {}
                    }
                }
                None => notified.await,
            }
        }
    }
}

impl Pods for ModelledApi {
    fn env(&self) -> &Env {
        &self.env
    }

    fn request_time(&self) -> Duration {
        self.request
    }

    fn answered(&self) -> &Answered {
        &self.answered
    }

    fn get(&self, key: &str) -> Option<Arc<Pod>> {
        self.state.lock().pods.get(key).map(|held| held.pod.clone())
    }

    fn bind(&self, key: &str, binding: &Value) -> Result<(), (u16, String)> {
        let bound = self.state.lock().bind(key, binding);
        self.changed.notify_one();
        bound
    }

    fn patch(&self, key: &str, patch: &Value) -> Result<Arc<Pod>, (u16, String)> {
        let patched = self.state.lock().patch(key, patch);
        self.changed.notify_one();
        patched
    }

    fn delete(&self, key: &str, uid: &str) -> Result<(), (u16, String)> {
        let deleted = self.state.lock().delete(key, uid);
        self.changed.notify_one();
        deleted
    }
}

fn service(shared: &Arc<OnceLock<Weak<ModelledApi>>>) -> HttpService {
    let shared = shared.clone();
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let api = shared.get().and_then(Weak::upgrade);
        async move { Ok(requests::answer(api, request).await) }
    }))
}

impl State {
    /// Gives the informers what there is from the start.
    fn open(&mut self, informers: &Informers, namespaces: &BTreeSet<String>) -> Result<(), String> {
        for name in namespaces {
            let metadata =
                json!({"name": name, "resourceVersion": "1", "labels": {"kubernetes.io/metadata.name": name}});
            let namespace = Namespace::decode_value(json!({"metadata": metadata}));
            informers.of().put(Arc::new(namespace.map_err(|error| format!("namespace {name}: {error}"))?));
        }
        let names: Vec<String> = self.fleet.members.keys().cloned().collect();
        names.iter().for_each(|name| self.show_node(name));
        self.plan(self.report_every, Due::Report);
        self.plan_failures();
        Ok(())
    }

    fn elapsed(&self) -> Duration {
        self.env.now() - self.began
    }

    fn plan(&mut self, after: Duration, due: Due) {
        self.planned += 1;
        self.due.push(Reverse((self.env.now() + after, self.planned, due)));
    }

    fn plan_failures(&mut self) {
        if let Some(at) = self.fleet.next_failure_at() {
            self.plan(at.saturating_sub(self.elapsed()), Due::Failures);
        }
    }

    fn create(&mut self, document: &Value) -> Result<(), String> {
        self.created += 1;
        let pod = pod::created(document.clone(), self.created, self.env.wall())?;
        let key = pod.key();
        if self.pods.contains_key(&key) {
            return Err(format!("pods {:?} already exists", pod.name()));
        }
        let held = Held { pod: Arc::new(pod), number: self.created, course: None, is_lost: false };
        self.pods.insert(key.clone(), held);
        self.change(&key, |_| {});
        let node = pod::node_name(&self.pods[&key].pod).to_owned();
        if !node.is_empty() {
            self.on_node.entry(node).or_default().insert(key.clone());
            self.begin(&key);
        }
        Ok(())
    }

    fn bind(&mut self, key: &str, binding: &Value) -> Result<(), (u16, String)> {
        let node = binding["target"]["name"].as_str().unwrap_or_default().to_owned();
        let held = self.held(key, binding["metadata"]["uid"].as_str())?;
        if held.pod.is_deleting() {
            return Err((409, format!("pod {key} is being deleted, cannot be assigned to a host")));
        }
        let present = pod::node_name(&held.pod);
        if !present.is_empty() {
            return Err((409, format!("pod {key} is already assigned to node {present:?}")));
        }
        let now = self.env.wall();
        let annotations: Option<&Map<String, Value>> = binding["metadata"]["annotations"].as_object();
        self.change(key, |pod| pod::bind(pod, &node, annotations, now));
        self.on_node.entry(node).or_default().insert(key.to_owned());
        self.begin(key);
        Ok(())
    }

    fn patch(&mut self, key: &str, patch: &Value) -> Result<Arc<Pod>, (u16, String)> {
        let held = self.held(key, patch["metadata"]["uid"].as_str())?;
        let mut document = held.pod.encode();
        pod::merge(&mut document, patch);
        let patched = Pod::decode_value(document).map_err(|error| (422, error.to_string()))?;
        self.change(key, |pod| *pod = patched);
        self.held(key, None).map(|held| held.pod.clone())
    }

    fn delete(&mut self, key: &str, uid: &str) -> Result<(), (u16, String)> {
        let held = self.held(key, Some(uid).filter(|uid| !uid.is_empty()))?;
        let (node, number) = (pod::node_name(&held.pod).to_owned(), held.number);
        if node.is_empty() || pod::is_terminal(&held.pod) {
            self.remove(key);
            return Ok(());
        }
        let was_deleting = held.pod.is_deleting();
        let now = self.env.wall();
        self.change(key, |pod| pod::delete(pod, now));
        if !was_deleting {
            self.stop(key, &node, number);
        }
        Ok(())
    }

    /// Returns a pod, if it is the one with this uid.
    fn held(&self, key: &str, uid: Option<&str>) -> Result<&Held, (u16, String)> {
        let held = self.pods.get(key).ok_or_else(|| (404, format!("pods {key:?} not found")))?;
        match uid.is_none_or(|uid| held.pod.uid() == uid) {
            true => Ok(held),
            false => Err((409, format!("the UID in the precondition does not match that of pod {key}"))),
        }
    }

    /// Changes a pod, and shows it to the scheduler and to the owner.
    fn change(&mut self, key: &str, change: impl FnOnce(&mut Pod)) {
        let Some(held) = self.pods.get_mut(key) else { return };
        // The scheduler watches only pods that have not ended.
        let was_shown = !pod::is_terminal(&held.pod);
        let pod = Arc::make_mut(&mut held.pod);
        change(pod);
        self.revision += 1;
        pod.metadata.resource_version = Some(self.revision.to_string());
        let pod = held.pod.clone();
        match pod::is_terminal(&pod) {
            false => self.pod_informer.put(pod.clone()),
            true if was_shown => self.pod_informer.take_away(pod.clone()),
            true => {}
        }
        self.changes.push(Change::Pod { key: key.to_owned(), pod: Some(pod) });
    }

    fn remove(&mut self, key: &str) {
        let Some(held) = self.pods.remove(key) else { return };
        self.leave_node(key, &held.pod);
        self.revision += 1;
        if !pod::is_terminal(&held.pod) {
            self.pod_informer.take_away(held.pod);
        }
        self.changes.push(Change::Pod { key: key.to_owned(), pod: None });
    }

    fn leave_node(&mut self, key: &str, pod: &Pod) {
        let node = pod::node_name(pod);
        if let Some(pods) = self.on_node.get_mut(node) {
            pods.remove(key);
        }
        if let Some(member) = self.fleet.members.get_mut(node) {
            member.release(pod.uid());
        }
    }

    fn show_node(&mut self, name: &str) {
        let Some(member) = self.fleet.members.get_mut(name) else { return };
        self.revision += 1;
        Arc::make_mut(&mut member.node).metadata.resource_version = Some(self.revision.to_string());
        self.node_informer.put(member.node.clone());
    }

    /// Lets happen what is due.
    fn advance(&mut self) {
        let now = self.env.now();
        while let Some(Reverse((at, _, _))) = self.due.peek()
            && *at <= now
        {
            if let Some(Reverse((_, _, due))) = self.due.pop() {
                self.happen(due);
            }
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Sync(key, number) => self.sync(&key, number),
            Due::Container(key, number, index) => self.start_container(&key, number, index),
            Due::Admit(..) | Due::Start(..) | Due::End(..) | Due::Stop(..) | Due::Remove(..) => {
                self.kubelet_reports(due)
            }
            Due::Failures => {
                let elapsed = self.elapsed();
                for node in self.fleet.advance(elapsed) {
                    self.condition_changed(node);
                }
                self.plan_failures();
            }
            Due::Register(node) => self.register(&node),
            Due::Leave(node) => self.node_leaves(&node),
            Due::Unreachable(node, changes) => self.node_is_lost(&node, changes),
            Due::Reached(node, changes) => self.node_is_back(&node, changes),
            Due::Evict(key, number) => self.evict(&key, number),
            Due::Report => {
                let now = self.env.wall();
                let names: Vec<String> = self.fleet.members.keys().cloned().collect();
                for name in names {
                    let member = self.fleet.members.get_mut(&name);
                    if member.is_some_and(|member| member.condition == Condition::Healthy && member.report_images(now))
                    {
                        self.show_node(&name);
                    }
                }
                self.plan(self.report_every, Due::Report);
            }
        }
    }

    /// Drops a pod that has ended by itself. Nobody deletes it in a cluster either, and nobody looks at it.
    fn forget(&mut self, key: &str) {
        let Some(held) = self.pods.remove(key) else { return };
        self.leave_node(key, &held.pod);
    }
}
