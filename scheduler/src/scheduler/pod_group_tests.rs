//! Tests of PodGroups in virtual time: Kubernetes' plugins over a small API server, which a Bind plugin of the tests writes.

use super::*;
use crate::operations::Inspection;
use async_trait::async_trait;
use client_testing::FakeServer;
use component_base::http::{Body, HttpService};
use component_base::options::feature_gates::GateValues;
use scheduler_explanation::document::GroupVictim;
use scheduler_plugins::fixture::{self, gang, merge, pod_group};
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::configuration::extender::Extender;
use scheduling_framework::configuration::profile::ProfileConfiguration;
use scheduling_framework::{Bind, Features, Filter, Permission, Permit, Plugin, Points, Rejection};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

const BINDER: &str = "TestBinder";
const GROUPS: &str = "podgroups.scheduling.k8s.io";

/// Binds pods in the fake server, and fails for those that `refuses` names, once each.
struct TestBinder {
    env: Env,
    /// Longest time that a binding takes.
    delay: Duration,
    server: FakeServer,
    bound: Arc<Mutex<Vec<String>>>,
    refuses: Arc<Mutex<BTreeSet<String>>>,
}

impl Plugin for TestBinder {
    fn name(&self) -> &'static str {
        BINDER
    }
}

#[async_trait]
impl Bind for TestBinder {
    async fn bind(&self, _: &CycleState, pod: &PodInfo, node: &str) -> Option<Result<(), String>> {
        if self.refuses.lock().remove(pod.pod.name()) {
            return Some(Err("refused".to_owned()));
        }
        let delay = self.delay.mul_f64(self.env.random("binder").below(100) as f64 / 100.0);
        self.env.sleep(delay).await;
        let Some(mut object) = self.server.get("pods", &pod.key) else { return Some(Err("not found".to_owned())) };
        object["spec"]["nodeName"] = json!(node);
        self.server.put("pods", object);
        self.bound.lock().push(pod.pod.name().to_owned());
        Some(Ok(()))
    }
}

pub(super) struct Cluster {
    pub server: FakeServer,
    pub env: Env,
    pub scheduler: Arc<Scheduler>,
    pub bound: Arc<Mutex<Vec<String>>>,
    refuses: Arc<Mutex<BTreeSet<String>>>,
    pub inspection: Arc<Inspection>,
}

/// What a cluster of a test has besides nodes.
#[derive(Default)]
pub(super) struct Setup {
    pub extenders: Vec<Extender>,
    /// What the Permit plugin of the tests does.
    pub permit: Permits,
    /// Time that the server takes to answer the deletion of a pod.
    pub deletion: Duration,
    /// Longest time that a binding takes.
    pub binding: Duration,
    /// The server of a former scheduler.
    pub server: Option<FakeServer>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Permits {
    #[default]
    All,
    /// Pods with the label `waits` wait for ten minutes.
    Waits,
    /// `second` fits after `first` only, which wants it to be tried then.
    Activates,
    /// Rejects the pod `g-0` when its group has nodes.
    RejectsFirst,
}

const PERMIT: &str = "TestPermit";

/// Lets pods wait, or wakes others.
struct TestPermit(Permits);

impl Plugin for TestPermit {
    fn name(&self) -> &'static str {
        PERMIT
    }
}

impl Filter for TestPermit {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let is_early = self.0 == Permits::Activates && pod.uid() == "second" && node.pods.is_empty();
        if is_early { Err(Rejection::unschedulable(PERMIT, "too early")) } else { Ok(()) }
    }
}

impl Permit for TestPermit {
    fn permit(&self, state: &mut CycleState, pod: &PodInfo, _: &str) -> Result<Permission, Rejection> {
        if self.0 == Permits::Activates && pod.uid() == "first" {
            state.pods_to_activate.insert("second".to_owned());
        }
        if self.0 == Permits::RejectsFirst && pod.uid() == "g-0" && !state.in_pod_group_cycle {
            return Err(Rejection::unschedulable(PERMIT, "not this one"));
        }
        let waits = self.0 == Permits::Waits && pod.labels().contains_key("waits");
        Ok(if waits { Permission::Wait(Duration::from_secs(600)) } else { Permission::Allow })
    }
}

/// Returns the server, which takes this time to delete a pod.
fn slow_deletions(env: &Env, server: &FakeServer, delay: Duration) -> HttpService {
    let (env, server) = (env.clone(), server.service());
    HttpService::new(tower::service_fn(move |request: http::Request<Body>| {
        let (env, server) = (env.clone(), server.clone());
        async move {
            if request.method() == http::Method::DELETE && !delay.is_zero() {
                env.sleep(delay).await;
            }
            tower::ServiceExt::oneshot(server, request).await
        }
    }))
}

fn profile(name: &str) -> ProfileConfiguration {
    let bind = json!({"disabled": [{"name": "*"}], "enabled": [{"name": BINDER}]});
    let plugins = json!({"bind": bind, "multiPoint": {"enabled": [{"name": PERMIT}]}});
    let profile = json!({"schedulerName": name, "plugins": plugins});
    ProfileConfiguration::read("profiles[0]", &profile, &mut Vec::new())
}

impl Cluster {
    /// Starts a scheduler with two profiles over nodes of four cores each, and with these gates beside GangScheduling.
    async fn start(seed: u64, nodes: &[(&str, &str)], gates: &[&str]) -> Self {
        let gates: Vec<&str> = ["GenericWorkload", "GangScheduling"].iter().chain(gates).copied().collect();
        Self::start_with(Env::simulated(seed), nodes, &gates, Setup::default()).await
    }

    /// Starts a scheduler with these gates alone.
    pub(super) async fn start_with(env: Env, nodes: &[(&str, &str)], gates: &[&str], setup: Setup) -> Self {
        let server = setup.server.unwrap_or_else(|| FakeServer::new(&env));
        for (name, zone) in nodes {
            put(&server, "nodes", "v1", "Node", &*fixture::node(name, zone, json!({})));
        }
        let client = Client::from_service(&env, slow_deletions(&env, &server, setup.deletion), "test");
        let informers = Informers::new(&client);
        let (bound, refuses) = (Arc::<Mutex<Vec<String>>>::default(), Arc::<Mutex<BTreeSet<String>>>::default());
        let binder = TestBinder {
            env: env.clone(),
            delay: setup.binding,
            server: server.clone(),
            bound: bound.clone(),
            refuses: refuses.clone(),
        };
        let binder = Arc::new(binder);
        let plugin = setup.permit;
        let register: Register = Arc::new(move |_, registry| {
            let (binder, permit) = (binder.clone(), Arc::new(TestPermit(plugin)));
            registry.add(BINDER, move |_| Ok(Points::of(&binder).bind(&binder)));
            registry.add(PERMIT, move |_| Ok(Points::of(&permit).filter(&permit).permit(&permit)));
        });
        let gates: GateValues = gates.iter().map(|gate| ((*gate).to_owned(), true)).collect();
        let profiles = vec![profile("default-scheduler"), profile("other")];
        let extenders = setup.extenders;
        let configuration = Configuration { profiles, extenders, ..Configuration::default() };
        let configuration = configuration.with_features(Features::of(&gates));
        let inspection = Inspection::new(100);
        let (sender, receiver) = watch::channel(Arc::new(configuration));
        let scheduler =
            Scheduler::new(&informers, &sender.borrow(), &register, inspection.attempts.clone(), None).unwrap();
        inspection.set(&scheduler);
        informers.start();
        assert!(informers.synced().await);
        env.spawn(scheduler.clone().run(receiver));
        Self { server, env, scheduler, bound, refuses, inspection }
    }

    pub fn group(&self, group: &proto::kinds::api::scheduling::v1alpha2::PodGroup) {
        put(&self.server, GROUPS, "scheduling.k8s.io/v1alpha2", "PodGroup", group);
    }

    /// Adds a pod of a group that needs one core.
    pub fn pod(&self, name: &str, group: &str, spec: Value) {
        let mut all = json!({"schedulingGroup": {"podGroupName": group}, "schedulerName": "default-scheduler"});
        merge(&mut all, spec);
        let mut pod = fixture::pod(name, "1", all);
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        self.server.put("pods", pod);
    }

    pub fn pods(&self, group: &str, count: usize, spec: &Value) {
        (0..count).for_each(|at| self.pod(&format!("{group}-{at}"), group, spec.clone()));
    }

    pub async fn wait(&self, seconds: u64) {
        self.env.sleep(Duration::from_secs(seconds)).await;
    }

    /// Returns the number of bound pods whose names begin like this.
    pub fn bound(&self, group: &str) -> usize {
        self.bound.lock().iter().filter(|name| name.starts_with(&format!("{group}-"))).count()
    }

    /// Returns the pods of a group that have a node.
    pub fn nodes_of(&self, group: &str) -> Vec<String> {
        let pods = self.server.list("pods").into_iter();
        let of_group = pods.filter(|pod| pod["spec"]["schedulingGroup"]["podGroupName"] == group);
        of_group.filter_map(|pod| Some(pod["spec"]["nodeName"].as_str()?.to_owned())).collect()
    }

    /// Returns the message of a pod's condition `PodScheduled`.
    pub fn why(&self, pod: &str) -> String {
        let pod = self.server.get("pods", &format!("shop/{pod}")).unwrap();
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    }

    pub fn condition(&self, group: &str) -> String {
        let group = self.server.get(GROUPS, &format!("shop/{group}")).unwrap();
        let text = |field: &str| group["status"]["conditions"][0][field].as_str().unwrap_or_default().to_owned();
        format!("{} {} {}", text("status"), text("reason"), text("message")).trim().to_owned()
    }

    fn delete(&self, group: &str) {
        for pod in self.server.list("pods") {
            if pod["spec"]["schedulingGroup"]["podGroupName"] == group {
                self.server.remove("pods", &format!("shop/{}", pod["metadata"]["name"].as_str().unwrap()));
            }
        }
    }
}

fn put<T: serde::Serialize>(server: &FakeServer, collection: &str, version: &str, kind: &str, object: &T) {
    let mut object = serde_json::to_value(object).unwrap();
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    server.put(collection, object);
}

pub(super) const TWO_NODES: &[(&str, &str)] = &[("n1", "a"), ("n2", "b")];

/// Two gangs of six, and eight cores. Their pods arrive in any order and at any pace.
#[tokio::test(start_paused = true)]
async fn of_two_gangs_that_do_not_fit_together_exactly_one_runs() {
    for seed in 0..50 {
        let cluster = Cluster::start(seed, TWO_NODES, &[]).await;
        let random = cluster.env.random("arrivals");
        let mut arrivals: Vec<String> =
            ["a", "b"].iter().flat_map(|g| (0..6).map(move |n| format!("{g}-{n}"))).collect();
        let (mut groups, mut steps) = (vec!["a", "b"], 0);
        while !arrivals.is_empty() {
            steps += 1;
            if !groups.is_empty() && (steps > 8 || random.below(4) == 0) {
                cluster.group(&gang(groups.swap_remove(random.below(groups.len())), 6));
            }
            let name = arrivals.swap_remove(random.below(arrivals.len()));
            cluster.pod(&name, &name[..1], json!({}));
            if random.below(3) == 0 {
                cluster.env.sleep(Duration::from_millis(random.below(3000) as u64)).await;
            }
        }
        groups.into_iter().for_each(|name| cluster.group(&gang(name, 6)));
        cluster.wait(30).await;
        let counts = [cluster.bound("a"), cluster.bound("b")];
        assert!(counts == [6, 0] || counts == [0, 6], "seed {seed}: {counts:?}");
        // When it ends, the other one runs.
        let (ended, waiting) = if counts[0] == 6 { ("a", "b") } else { ("b", "a") };
        assert_eq!(cluster.condition(ended), "True Scheduled", "seed {seed}");
        cluster.delete(ended);
        cluster.wait(30).await;
        assert_eq!(cluster.bound(waiting), 6, "seed {seed}");
        cluster.env.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_gang_are_in_each_others_way() {
    let port =
        json!({"containers": [{"name": "c", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 80}]}]});
    let cluster = Cluster::start(1, &TWO_NODES[..1], &[]).await;
    cluster.group(&gang("a", 2));
    cluster.pods("a", 2, &port);
    cluster.wait(30).await;
    assert_eq!(cluster.bound("a"), 0);
}

/// No write can begin, so that nothing but the cycle itself can have put the pods back.
#[tokio::test(start_paused = true)]
async fn a_gang_that_does_not_fit_is_queued_as_a_whole_before_anything_is_written() {
    let cluster = Cluster::start(1, TWO_NODES, &[]).await;
    let writes = u32::try_from(MAX_WRITES).unwrap();
    let held = cluster.scheduler.writes.clone().acquire_many_owned(writes).await.unwrap();
    cluster.group(&gang("g", 9));
    cluster.pods("g", 9, &json!({}));
    cluster.wait(1).await;
    let waiting = |cluster: &Cluster| cluster.scheduler.queue.with(|queue, _| queue.lengths());
    assert_eq!(waiting(&cluster).iter().sum::<usize>(), 9);
    drop(held);
    cluster.wait(5).await;
    assert_eq!(cluster.bound("g"), 0);
    assert!(cluster.why("g-8").starts_with("0/2 nodes are available: "), "{}", cluster.why("g-8"));
}

#[tokio::test(start_paused = true)]
async fn a_gang_that_does_not_fit_is_explained_and_holds_nothing() {
    let cluster = Cluster::start(1, TWO_NODES, &[]).await;
    cluster.group(&gang("g", 9));
    cluster.pods("g", 8, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.why("g-0"), "", "the gang is not complete");
    cluster.pod("g-8", "g", json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("g"), 0);
    let waits = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled";
    assert_eq!(cluster.why("g-0"), waits);
    let last = "0/2 nodes are available: 2 Insufficient cpu.";
    assert!(cluster.why("g-8").starts_with(last), "{}", cluster.why("g-8"));
    assert_eq!(cluster.condition("g"), "False Unschedulable pod group is unschedulable");
    // Other pods may use the space.
    cluster.group(&pod_group("basic", json!({"schedulingPolicy": {"basic": {}}})));
    cluster.pods("basic", 8, &json!({}));
    cluster.wait(5).await;
    assert_eq!((cluster.bound("g"), cluster.bound("basic")), (0, 8));
    cluster.delete("basic");
    put(&cluster.server, "nodes", "v1", "Node", &*fixture::node("n3", "a", json!({})));
    cluster.wait(20).await;
    assert_eq!(cluster.bound("g"), 9);
    assert_eq!(cluster.condition("g"), "True Scheduled");
}

#[tokio::test(start_paused = true)]
async fn members_come_late_and_go_early() {
    let cluster = Cluster::start(2, TWO_NODES, &[]).await;
    cluster.group(&gang("g", 3));
    cluster.pods("g", 4, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("g"), 4);
    cluster.pod("g-4", "g", json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("g"), 5, "the gang has enough pods already");
    // A deleted pod does not count.
    cluster.group(&gang("h", 2));
    cluster.pod("h-0", "h", json!({}));
    cluster.wait(5).await;
    cluster.server.remove("pods", "shop/h-0");
    cluster.pod("h-1", "h", json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("h"), 0);
    cluster.pod("h-2", "h", json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("h"), 2);
}

/// The queue may be asked between the arrival of the last pod and the event that tells the others of it.
#[tokio::test(start_paused = true)]
async fn a_gang_is_taken_whole_before_its_pods_are_told() {
    let cluster = Cluster::start(1, TWO_NODES, &[]).await;
    cluster.group(&gang("g", 2));
    cluster.pod("g-0", "g", json!({}));
    cluster.wait(1).await;
    let last = fixture::info(fixture::pod("g-1", "1", json!({"schedulingGroup": {"podGroupName": "g"}})));
    let scheduler = &cluster.scheduler;
    let taken = scheduler.queue.with(|queue, now| {
        assert!(queue.pop_specific("g-0", now).is_none(), "the gang is not complete");
        scheduler.pod_groups.set_pod(&last);
        queue.add(last, now);
        [queue.pop(now), queue.pop_specific("g-0", now)].map(|pod| pod.map(|pod| pod.info.pod.name().to_owned()))
    });
    assert_eq!(taken, ["g-1", "g-0"].map(|name| Some(name.to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_gang_waits_for_its_group_and_loses_it() {
    let cluster = Cluster::start(3, TWO_NODES, &[]).await;
    cluster.pods("g", 2, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("g"), 0);
    cluster.group(&gang("g", 9));
    cluster.wait(5).await;
    cluster.server.remove(GROUPS, "shop/g");
    cluster.pods("g", 9, &json!({}));
    cluster.wait(400).await;
    assert_eq!(cluster.bound("g"), 0);
    cluster.group(&gang("g", 8));
    cluster.wait(20).await;
    assert_eq!(cluster.bound("g"), 8);
}

#[tokio::test(start_paused = true)]
async fn a_gang_has_one_scheduler() {
    let cluster = Cluster::start(4, TWO_NODES, &[]).await;
    cluster.group(&gang("g", 2));
    cluster.pod("g-0", "g", json!({}));
    cluster.pod("g-1", "g", json!({"schedulerName": "other"}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("g"), 0);
    let why = cluster.why("g-0");
    assert!(why.starts_with("all pods in a single pod group should have the same .spec.schedulerName set"), "{why}");
}

/// A pod whose binding fails is tried again, while the others run.
#[tokio::test(start_paused = true)]
async fn a_failed_binding_is_repeated() {
    let cluster = Cluster::start(5, TWO_NODES, &[]).await;
    cluster.refuses.lock().extend(["g-1".to_owned(), "g-3".to_owned()]);
    cluster.group(&gang("g", 4));
    cluster.pods("g", 4, &json!({}));
    cluster.wait(20).await;
    assert_eq!(cluster.bound("g"), 4);
    assert!(cluster.scheduler.waiting_pods.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn single_pods_of_a_gang_preempt_only_if_the_gang_fits_then() {
    let cluster = Cluster::start(6, TWO_NODES, &[]).await;
    cluster.group(&pod_group("low", json!({"schedulingPolicy": {"basic": {}}})));
    cluster.pods("low", 8, &json!({"priority": 1}));
    cluster.wait(5).await;
    assert_eq!(cluster.bound("low"), 8);
    cluster.group(&gang("high", 9));
    cluster.pods("high", 9, &json!({"priority": 5}));
    cluster.wait(60).await;
    assert_eq!((cluster.nodes_of("low").len(), cluster.nodes_of("high").len()), (8, 0), "nine pods never fit");
    cluster.delete("high");
    cluster.group(&gang("fits", 5));
    cluster.pods("fits", 5, &json!({"priority": 5}));
    cluster.wait(60).await;
    assert_eq!((cluster.nodes_of("low").len(), cluster.nodes_of("fits").len()), (3, 5));
}

#[tokio::test(start_paused = true)]
async fn a_group_preempts_as_a_whole() {
    let cluster = Cluster::start(7, TWO_NODES, &["WorkloadAwarePreemption"]).await;
    let of_priority = |priority: i32, mode: &str, min_count: i32| json!({"schedulingPolicy": {"gang": {"minCount": min_count}}, "priority": priority, "disruptionMode": mode});
    cluster.group(&pod_group("unit", of_priority(1, "PodGroup", 2)));
    cluster.pods("unit", 4, &json!({"priority": 1}));
    cluster.group(&pod_group("single", of_priority(1, "Pod", 1)));
    cluster.pods("single", 4, &json!({"priority": 1}));
    cluster.wait(5).await;
    assert_eq!((cluster.bound("unit"), cluster.bound("single")), (4, 4));
    // A group counts as more important than single pods, which go first.
    cluster.group(&pod_group("high", of_priority(5, "Pod", 3)));
    cluster.pods("high", 3, &json!({"priority": 5}));
    cluster.wait(60).await;
    let counts = ["unit", "single", "high"].map(|group| cluster.nodes_of(group).len());
    assert_eq!(counts, [4, 1, 3]);
    // All pods of a group with the disruption mode `PodGroup` go together.
    cluster.group(&pod_group("more", of_priority(5, "Pod", 2)));
    cluster.pods("more", 2, &json!({"priority": 5}));
    cluster.wait(60).await;
    let counts = ["unit", "single", "high", "more"].map(|group| cluster.nodes_of(group).len());
    assert_eq!(counts, [0, 1, 3, 2]);
    // The explanation of each pod has the victims of its group.
    for (pod, expected) in [
        ("shop/high-0", "evicted single: 1; evicted single: 1; evicted single: 1; stays unit: 4; stays single: 1"),
        ("shop/more-1", "evicted unit: 4; stays single: 1"),
    ] {
        let attempts = cluster.inspection.recorder.as_ref().unwrap().list();
        let of_pod = attempts.iter().filter(|attempt| attempt.pod.key == pod);
        let preemption = of_pod.filter_map(|attempt| attempt.group_preemption.lock().clone()).next().unwrap();
        let line = |candidate: &GroupVictim| {
            let verdict = if candidate.evicted { "evicted" } else { "stays" };
            let name = candidate.pods[0].rsplit_once('-').unwrap().0.trim_start_matches("shop/");
            format!("{verdict} {name}: {}", candidate.pods.len())
        };
        assert_eq!(preemption.candidates.iter().map(line).collect::<Vec<_>>().join("; "), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_stays_in_one_topology_domain() {
    let nodes = [("n1", "a"), ("n2", "b"), ("n3", "b"), ("n4", "c")];
    let cluster = Cluster::start(8, &nodes, &["TopologyAwareWorkloadScheduling"]).await;
    let spec = |min_count: i32| {
        let topology = json!({"topology": [{"key": "zone"}]});
        json!({"schedulingPolicy": {"gang": {"minCount": min_count}}, "schedulingConstraints": topology})
    };
    cluster.group(&pod_group("g", spec(3)));
    cluster.pods("g", 6, &json!({}));
    cluster.wait(5).await;
    let nodes = cluster.nodes_of("g");
    assert!(nodes.len() == 6 && nodes.iter().all(|node| node == "n2" || node == "n3"), "zone b takes all: {nodes:?}");
    cluster.group(&pod_group("large", spec(5)));
    cluster.pods("large", 5, &json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.nodes_of("large").len(), 0);
    let condition = cluster.condition("large");
    assert!(condition.contains("0/3 placements are available, first placement status: pod group is"), "{condition}");
    // Later pods of a group follow the first ones.
    cluster.pod("g-6", "g", json!({}));
    cluster.wait(5).await;
    assert_eq!(cluster.nodes_of("g").len(), 7);
}
