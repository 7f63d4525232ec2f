//! Fleets with an API server that is slow, unreachable, or has lost objects.

use super::*;
use client_testing::{FakeServer, Fault};
use component_base::kubeconfig::Connection;
use component_base::network::{Network, Registry};
use proto::Status;
use proto::kinds::jiff::Timestamp;
use serde_json::{Value, json};

mod behaviour;
mod outages;
mod clocks;
mod devices;
mod rivals;
mod machines;
mod stages;
mod reference;

const AUTHORITY: &str = "apiserver:6443";

struct World {
    env: Env,
    server: FakeServer,
    settings: Settings,
}

impl World {
    fn of(nodes: u32) -> Self {
        let env = Env::simulated(11);
        let server = FakeServer::new(&env);
        registry(&env).register(AUTHORITY, server.service());
        Self { env, server, settings: Settings { nodes, ..Settings::default() } }
    }

    /// Starts a fleet with all nodes; draining the returned environment ends it.
    fn start(&self) -> Env {
        let connection = Connection { server: format!("https://{AUTHORITY}"), ..Connection::default() };
        let client = Client::connect(&self.env, &connection, "kubelet-sim").unwrap();
        let env = self.env.child();
        self.env.spawn(Fleet::run(client.in_env(&env), self.settings.clone(), env.clone()));
        env
    }

    async fn pass(&self, ms: u64) {
        self.env.sleep(Duration::from_millis(ms)).await;
    }

    /// Sets a node's podCIDR, as the node IPAM controller does.
    fn give_range(&self, node: &str, range: &str) {
        let mut object = self.server.get("nodes", node).unwrap();
        object["spec"]["podCIDR"] = json!(range);
        self.server.put("nodes", object);
    }

    /// Makes the node one hour old.
    fn age(&self, node: &str) {
        let mut object = self.server.get("nodes", node).unwrap();
        let created = self.env.wall() - Duration::from_secs(3600);
        object["metadata"]["creationTimestamp"] = json!(created);
        self.server.put("nodes", object);
    }

    fn bind(&self, name: &str, container: Value) {
        self.bind_to("node-0", name, container);
    }

    fn bind_to(&self, node: &str, name: &str, container: Value) {
        self.server.put(
            "pods",
            json!({
                "metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")},
                "spec": {"nodeName": node, "containers": [container]},
            }),
        );
    }

    fn status(&self, pod: &str) -> Value {
        self.server.get("pods", &format!("shop/{pod}")).unwrap()["status"].clone()
    }

    /// Returns the reasons and messages of the events about an object.
    fn events(&self, object: &str) -> Vec<String> {
        let events = self.server.list("events");
        let about = events.iter().filter(|event| event["involvedObject"]["name"] == object);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        about.map(|event| format!("{}: {}", text(&event["reason"]), text(&event["message"]))).collect()
    }
}

fn registry(env: &Env) -> &Registry {
    match env.network() {
        Network::InProcess(registry) => registry,
        Network::Sockets => panic!("simulations have no sockets"),
    }
}

fn nginx() -> Value {
    json!({"name": "web", "image": "nginx:1"})
}

#[tokio::test(start_paused = true)]
async fn a_node_becomes_ready_and_says_so() {
    let world = World::of(1);
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.pass(1_000).await;
    let mut events = world.events("node-0");
    events.sort();
    let healthy = |reason| format!("{reason}: Node node-0 status is now: {reason}");
    let expected = [
        healthy("NodeHasNoDiskPressure"),
        healthy("NodeHasSufficientMemory"),
        healthy("NodeHasSufficientPID"),
        healthy("NodeReady"),
        "Starting: Starting kubelet.".to_owned(),
    ];
    assert_eq!(events, expected);
    let node = world.server.get("nodes", "node-0").unwrap();
    assert_eq!(node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"], 10250);
}

/// A kubelet may read and write only its own node and pods.
#[tokio::test(start_paused = true)]
async fn a_node_with_an_identity_of_its_own_impersonates_nobody_and_looks_at_its_own_pods() {
    let mut world = World::of(1);
    world.settings.impersonate_nodes = false;
    world.settings.first_node = 4;
    world.start();
    world.pass(1_000).await;
    world.give_range("node-4", "10.244.3.0/24");
    world.bind_to("node-4", "web", nginx());
    world.pass(5_000).await;
    assert_eq!(world.status("web")["phase"], "Running");
    let requests = world.server.requests();
    assert!(requests.iter().all(|request| !request.headers.contains_key("impersonate-user")));
    let watched = |line: &str| requests.iter().filter(|request| request.line.contains(line)).count();
    assert_eq!(watched("watch=true") - watched("/stages?"), watched("fieldSelector="));
    assert_eq!(
        (watched("fieldSelector=metadata.name%3Dnode-4"), watched("fieldSelector=spec.nodeName%3Dnode-4")),
        (1, 1)
    );
    let several = Settings { nodes: 2, ..world.settings.clone() };
    let refused = several.check().unwrap_err().to_string();
    assert!(refused.starts_with("--impersonate-nodes: ") && refused.ends_with("--nodes has to be 1"), "{refused}");
}

/// The control plane runs without `--allocate-node-cidrs`.
#[tokio::test(start_paused = true)]
async fn nodes_that_are_given_no_range_take_one_of_their_own_and_warn() {
    let world = World::of(3);
    let agent = world.start();
    for node in 0..3 {
        world.bind_to(&format!("node-{node}"), &format!("web-{node}"), nginx());
    }
    world.pass(15_000).await;
    assert_eq!(world.status("web-0")["podIP"], Value::Null, "a controller manager may still give ranges");
    world.give_range("node-2", "10.244.3.0/24");
    world.pass(30_000).await;
    let addresses = || [0, 1, 2].map(|n| world.status(&format!("web-{n}"))["podIP"].as_str().unwrap().to_owned());
    let expected = ["100.64.0.2", "100.64.1.2", "10.244.3.2"];
    assert_eq!(addresses(), expected);
    let node = world.server.get("nodes", "node-0").unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.iter().find(|c| c["type"] == "Ready").unwrap()["status"], "True");
    let warned = |node: &str| world.events(node).iter().filter(|event| event.starts_with("CIDRNotAvailable")).count();
    assert_eq!(["node-0", "node-1", "node-2"].map(warned), [1, 1, 0]);

    // An agent that starts again gives no address twice, and does not wait again.
    agent.drain().await;
    world.age("node-0");
    world.start();
    world.bind("new", nginx());
    world.pass(5_000).await;
    assert_eq!(addresses(), expected);
    assert_eq!(world.status("new")["podIP"], "100.64.0.3");

    // A range that comes late is used by pods that come later.
    world.give_range("node-0", "10.244.7.0/24");
    world.pass(1_000).await;
    world.bind("later", nginx());
    world.pass(5_000).await;
    assert_eq!((addresses(), &world.status("later")["podIP"]), (expected.map(str::to_owned), &json!("10.244.7.2")));
}

/// The registration returns the node's range before the informer has it.
#[tokio::test(start_paused = true)]
async fn pods_go_on_whoever_hears_first_of_the_nodes_range() {
    let world = World::of(1);
    world.bind("web", nginx());
    let down = |path_contains| Fault { path_contains, answer: Status::internal("down"), retry_after_s: None };
    world.server.fault(down("POST /api/v1/nodes"));
    world.start();
    world.pass(10).await;
    // The informers lose their watches before the registration is tried again.
    for _ in 0..2 {
        world.server.fault(down("watch=true"));
    }
    world.server.cut_watches();
    world.server.put("nodes", json!({"metadata": {"name": "node-0"}, "spec": {"podCIDR": "10.244.3.0/24"}}));
    world.pass(60_000).await;
    assert_eq!(world.status("web")["phase"], "Running");
    assert_eq!(world.status("web")["podIP"], "10.244.3.2");
}

#[tokio::test(start_paused = true)]
async fn many_nodes_renew_their_leases_soon_after_the_server_is_back() {
    let world = World::of(200);
    world.start();
    world.pass(10_000).await;
    registry(&world.env).remove(AUTHORITY);
    world.pass(120_000).await;
    registry(&world.env).register(AUTHORITY, world.server.service());
    world.pass(10_000).await;
    let leases = world.server.list("leases.coordination.k8s.io");
    assert_eq!(leases.len(), 200);
    let back_at = world.env.wall() - Duration::from_secs(10);
    let renewed = |lease: &Value| lease["spec"]["renewTime"].as_str().unwrap().parse::<Timestamp>().unwrap();
    let late = leases.iter().filter(|lease| renewed(lease) < back_at).count();
    assert_eq!(late, 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_again_finds_everything_as_it_was() {
    let world = World::of(1);
    let first = world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.pass(100).await;
    world.bind("web", nginx());
    world.pass(2_000).await;
    let before = world.status("web");
    assert_eq!(before["phase"], "Running");
    first.drain().await;
    // The node's status was not reported since the pull: it does not list the image.
    assert!(world.server.get("nodes", "node-0").unwrap()["status"]["images"].is_null());
    world.start();
    world.pass(1_000).await;
    assert_eq!(world.status("web"), before, "nothing has happened to it");
    world.bind("second", nginx());
    world.pass(2_000).await;
    assert_eq!(world.status("second")["podIP"], "10.244.3.3");
    let pulled = "Pulled: Container image \"nginx:1\" already present on machine and can be accessed by the pod";
    assert_eq!(world.events("second")[0], pulled);
}

#[tokio::test(start_paused = true)]
async fn a_node_takes_no_more_than_it_has() {
    let mut world = World::of(1);
    world.settings.cpu = "1".to_owned();
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    let asking = json!({"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": "600m"}}});
    world.bind("first", asking.clone());
    world.pass(2_000).await;
    world.bind("second", asking.clone());
    world.pass(2_000).await;
    assert_eq!(world.status("first")["phase"], "Running");
    let lack = "Node didn't have enough resource: cpu, requested: 600, used: 600, capacity: 1000";
    let rejected = world.status("second");
    assert_eq!((&rejected["phase"], &rejected["reason"]), (&json!("Failed"), &json!("OutOfcpu")));
    assert_eq!(rejected["message"], format!("Pod was rejected: {lack}"));
    assert_eq!(world.events("second"), [format!("OutOfcpu: {lack}")]);
    world.server.remove("pods", "shop/first");
    world.pass(1_000).await;
    world.bind("third", asking);
    world.pass(2_000).await;
    assert_eq!(world.status("third")["phase"], "Running");
}

/// Objects that pods refer to are read with the node's identity, once for pods that start together.
#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_config_map_and_shares_it_with_others() {
    let world = World::of(1);
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    let bind = |name: &str| {
        let created = world.env.wall();
        world.server.put(
            "pods",
            json!({
                "metadata": {
                    "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "creationTimestamp": created,
                },
                "spec": {
                    "nodeName": "node-0", "containers": [nginx()],
                    "volumes": [{"name": "config", "configMap": {"name": "game"}}],
                },
            }),
        );
    };
    bind("early");
    world.pass(2_000).await;
    assert_eq!(world.status("early")["phase"], "Pending");
    let failed = "FailedMount: MountVolume.SetUp failed for volume \"config\" : configmap \"game\" not found";
    assert!(world.events("early").contains(&failed.to_owned()), "{:?}", world.events("early"));

    world.server.put("configmaps", json!({"metadata": {"name": "game", "namespace": "shop"}, "data": {"lives": "3"}}));
    world.pass(4_000).await;
    assert_eq!(world.status("early")["phase"], "Running");
    let reads = || world.server.requests().iter().filter(|request| request.line.contains("configmaps/game")).count();
    let before = reads();
    bind("second");
    bind("third");
    world.pass(4_000).await;
    assert_eq!(
        [world.status("second")["phase"].clone(), world.status("third")["phase"].clone()],
        ["Running", "Running"]
    );
    assert!(reads() <= before + 1, "{} reads after {before}", reads());
}

/// A deferred resize is tried again when another pod goes.
#[tokio::test(start_paused = true)]
async fn a_pod_gets_more_once_another_has_gone() {
    let mut world = World::of(1);
    world.settings.cpu = "2".to_owned();
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    let asking = |cpu: &str| json!({"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": cpu}}});
    world.bind("first", asking("1"));
    world.bind("second", asking("500m"));
    world.pass(2_000).await;
    let mut pod = world.server.get("pods", "shop/second").unwrap();
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1500m");
    pod["metadata"]["generation"] = json!(2);
    world.server.put("pods", pod);
    world.pass(3_000).await;
    let pending = |status: &Value| {
        let conditions = status["conditions"].as_array().unwrap().clone();
        conditions.into_iter().find(|condition| condition["type"] == "PodResizePending")
    };
    let condition = pending(&world.status("second")).unwrap();
    let lack = "Node didn't have enough resource: cpu, requested: 1500, used: 1000, capacity: 2000";
    assert_eq!((&condition["reason"], &condition["message"]), (&json!("Deferred"), &json!(lack)));
    world.server.remove("pods", "shop/first");
    world.pass(3_000).await;
    let status = world.status("second");
    assert_eq!(pending(&status), None);
    assert_eq!(status["containerStatuses"][0]["resources"]["requests"]["cpu"], "1500m");
    let events = world.events("second");
    let reasons: Vec<&str> = events.iter().filter_map(|event| event.split(':').next()).collect();
    assert!(reasons.ends_with(&["ResizeDeferred", "ResizeStarted", "ResizeCompleted"]), "{reasons:?}");
}

/// A pod that takes more and more memory is evicted; the one that keeps to its request stays.
#[tokio::test(start_paused = true)]
async fn a_node_that_runs_out_of_memory_evicts_the_greediest_pod() {
    let mut world = World::of(1);
    world.settings.memory = "1Gi".to_owned();
    world.settings.eviction_pressure_transition_period = Duration::from_secs(30);
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    let asking = json!({"name": "web", "image": "nginx:1", "resources": {"requests": {"memory": "300Mi"}}});
    world.bind("modest", asking.clone());
    world.bind("greedy", asking);
    let mut greedy = world.server.get("pods", "shop/greedy").unwrap();
    greedy["metadata"]["annotations"] = json!({"orrery.dev/memory": "ramp 300Mi..900Mi/1m"});
    world.server.put("pods", greedy);
    let pressure = || {
        let node = world.server.get("nodes", "node-0").unwrap();
        let conditions = node["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter().find(|c| c["type"] == "MemoryPressure").unwrap()["reason"].clone()
    };
    world.pass(20_000).await;
    assert_eq!(
        (pressure(), &world.status("greedy")["phase"]),
        (json!("KubeletHasSufficientMemory"), &json!("Running"))
    );
    world.pass(30_000).await;
    assert_eq!(pressure(), "KubeletHasInsufficientMemory");
    world.pass(10_000).await;
    let status = world.status("greedy");
    assert_eq!((&status["phase"], &status["reason"]), (&json!("Failed"), &json!("Evicted")));
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("The node was low on resource: memory. Threshold quantity: 100Mi, available: "));
    assert!(message.ends_with("request is 300Mi, has larger consumption of memory. "), "{message}");
    let disrupted = status["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "DisruptionTarget").unwrap();
    assert_eq!(disrupted["reason"], "TerminationByKubelet");
    assert_eq!(world.status("modest")["phase"], "Running");
    let reclaims = "EvictionThresholdMet: Attempting to reclaim memory".to_owned();
    assert!(world.events("node-0").contains(&reclaims));
    assert!(world.events("greedy").contains(&format!("Evicted: {message}")));

    world.bind("late", nginx());
    world.pass(5_000).await;
    assert_eq!(world.status("late")["reason"], "Evicted", "it requests nothing");
    world.pass(60_000).await;
    assert_eq!(pressure(), "KubeletHasSufficientMemory");
    world.bind("later", nginx());
    world.pass(5_000).await;
    assert_eq!(world.status("later")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_critical_pod_pushes_another_out() {
    let mut world = World::of(1);
    world.settings.cpu = "2".to_owned();
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.bind("web", json!({"name": "web", "image": "nginx:1", "resources": {"requests": {"cpu": "1500m"}}}));
    world.pass(5_000).await;
    assert_eq!(world.status("web")["phase"], "Running");
    let container = json!({"name": "dns", "image": "dns:1", "resources": {"requests": {"cpu": "1"}}});
    world.server.put(
        "pods",
        json!({
            "metadata": {"name": "dns", "namespace": "shop", "uid": "uid-dns"},
            "spec": {"nodeName": "node-0", "priority": 2_000_000_000, "containers": [container]},
        }),
    );
    world.pass(10_000).await;
    let status = world.status("web");
    let expected = [json!("Failed"), json!("Preempting"), json!("Preempted in order to admit critical pod")];
    assert_eq!([&status["phase"], &status["reason"], &status["message"]], [&expected[0], &expected[1], &expected[2]]);
    assert_eq!(world.status("dns")["phase"], "Running");
    assert!(world.events("web").contains(&"Preempting: Preempted in order to admit critical pod".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_pod_needs_a_runtime_that_its_node_has() {
    let world = World::of(1);
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.server.put("runtimeclasses.node.k8s.io", json!({"metadata": {"name": "strict"}, "handler": "kata"}));
    for (name, class) in [("strict", "strict"), ("lost", "none")] {
        let spec = json!({"nodeName": "node-0", "runtimeClassName": class, "containers": [nginx()]});
        let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}")});
        world.server.put("pods", json!({"metadata": metadata, "spec": spec}));
    }
    world.pass(5_000).await;
    let failed = "FailedCreatePodSandBox: Failed to create pod sandbox:";
    let unknown =
        "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for \"kata\" is configured";
    assert!(world.events("strict").contains(&format!("{failed} {unknown}")), "{:?}", world.events("strict"));
    assert!(world.events("lost").contains(&format!("{failed} RuntimeClass.node.k8s.io \"none\" not found")));
    world.server.put("runtimeclasses.node.k8s.io", json!({"metadata": {"name": "strict"}, "handler": "runc"}));
    world.pass(12_000).await;
    assert_eq!(world.status("strict")["phase"], "Running");
}

/// A static pod runs from its file, whatever happens to its mirror.
#[tokio::test(start_paused = true)]
async fn a_static_pod_shows_itself_as_a_mirror_that_cannot_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    let manifest = |image: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: web, namespace: shop}}\n\
             spec: {{containers: [{{name: web, image: {image}}}], terminationGracePeriodSeconds: 5}}\n"
        )
    };
    std::fs::write(&file, manifest("nginx:1")).unwrap();
    std::fs::write(folder.path().join("bad.yaml"), "kind: Service").unwrap();
    let mut world = World::of(1);
    world.settings.pod_manifest_path = Some(folder.path().to_owned());
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.pass(5_000).await;
    let mirror = || world.server.get("pods", "shop/web-node-0");
    let first = mirror().unwrap();
    let annotations = &first["metadata"]["annotations"];
    assert_eq!(annotations["kubernetes.io/config.mirror"], annotations["kubernetes.io/config.hash"]);
    let owner = &first["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"], &owner["controller"]),
        (&json!("Node"), &json!("node-0"), &json!(true))
    );
    assert_eq!(world.status("web-node-0")["phase"], "Running");
    let started = world.status("web-node-0")["containerStatuses"][0]["state"]["running"]["startedAt"].clone();

    // Its mirror is deleted; it comes back, and the container has gone on.
    world.server.remove("pods", "shop/web-node-0");
    world.pass(5_000).await;
    let second = mirror().unwrap();
    assert_ne!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    assert_eq!(world.status("web-node-0")["containerStatuses"][0]["state"]["running"]["startedAt"], started);

    // Another manifest is another pod.
    std::fs::write(&file, manifest("nginx:2")).unwrap();
    world.pass(10_000).await;
    let third = mirror().unwrap();
    assert_ne!(third["metadata"]["annotations"], first["metadata"]["annotations"]);
    assert_eq!(world.status("web-node-0")["containerStatuses"][0]["image"], "docker.io/library/nginx:2");

    std::fs::remove_file(&file).unwrap();
    world.pass(10_000).await;
    assert_eq!(mirror(), None);
}

/// The file was removed while no agent ran.
#[tokio::test(start_paused = true)]
async fn a_mirror_without_a_static_pod_is_deleted() {
    let world = World::of(1);
    world.server.put(
        "pods",
        json!({
            "metadata": {"name": "web-node-0", "namespace": "shop", "uid": "m",
                "annotations": {"kubernetes.io/config.mirror": "h"}},
            "spec": {"nodeName": "node-0", "containers": [nginx()]},
        }),
    );
    world.start();
    world.pass(5_000).await;
    assert_eq!(world.server.get("pods", "shop/web-node-0"), None);
}
