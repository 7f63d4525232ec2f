//! Machines that are killed, restarted, cut off, filled and shut down, and nodes that join and leave, in virtual time.

use super::*;
use crate::machines::failure_model::FailureModel;

fn put_map(world: &World, data: Value) {
    let metadata = json!({"name": "orrery-fleet", "namespace": "kube-system", "uid": "fleet"});
    world.server.put("configmaps", json!({"metadata": metadata, "data": data}));
}

/// Returns a world of two nodes, with the pod `web` on the first.
async fn world() -> World {
    with_settings(Settings { nodes: 2, ..Settings::default() }).await
}

async fn with_settings(settings: Settings) -> World {
    let mut world = World::of(2);
    world.settings = settings;
    world.start();
    world.pass(100).await;
    world.give_range("node-0", "10.244.0.0/24");
    world.give_range("node-1", "10.244.1.0/24");
    world.bind("web", nginx());
    world.pass(10_000).await;
    assert_eq!(world.status("web")["phase"], "Running");
    world
}

fn renewed_at(world: &World, node: &str) -> String {
    let lease = world.server.get("leases.coordination.k8s.io", &format!("kube-node-lease/{node}")).unwrap();
    lease["spec"]["renewTime"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_killed_machine_is_silent_and_comes_back_with_what_it_had() {
    let world = world().await;
    let (status, boot_id) = (world.status("web"), boot_id(&world));
    assert_eq!(status["podIP"], "10.244.0.2");
    put_map(&world, json!({"machine.node-0": "state: killed"}));
    world.pass(1_000).await;
    let (first, other) = (renewed_at(&world, "node-0"), renewed_at(&world, "node-1"));
    world.pass(120_000).await;
    assert_eq!(renewed_at(&world, "node-0"), first);
    assert_ne!(renewed_at(&world, "node-1"), other, "the other machine runs");
    assert_eq!(world.status("web"), status, "nobody reports for the pod");
    put_map(&world, json!({}));
    world.pass(20_000).await;
    assert_ne!(renewed_at(&world, "node-0"), first);
    let container = world.status("web")["containerStatuses"][0].clone();
    let lost = &container["lastState"]["terminated"];
    assert_eq!(
        (&container["restartCount"], &lost["exitCode"], &lost["reason"]),
        (&json!(1), &json!(255), &json!("Unknown"))
    );
    assert!(container["state"]["running"]["startedAt"].as_str() > lost["finishedAt"].as_str());
    assert_eq!(world.status("web")["podIP"], "10.244.0.3", "the sandbox is another one");
    let events = world.events("web");
    assert!(events.iter().any(|event| event.starts_with("SandboxChanged: ")), "{events:?}");
    assert_ne!(self::boot_id(&world), boot_id);
    let events = world.events("node-0");
    assert!(
        events.iter().any(|event| event.starts_with("Rebooted: Node node-0 has been rebooted, boot id: ")),
        "{events:?}"
    );
}

fn boot_id(world: &World) -> Value {
    world.server.get("nodes", "node-0").unwrap()["status"]["nodeInfo"]["bootID"].clone()
}

#[tokio::test(start_paused = true)]
async fn another_text_restarts_a_machine_once() {
    let world = world().await;
    let restarts = |world: &World| world.status("web")["containerStatuses"][0]["restartCount"].clone();
    put_map(&world, json!({"machine.node-0": "restart: 1"}));
    world.pass(20_000).await;
    assert_eq!(restarts(&world), 1);
    put_map(&world, json!({"machine.node-0": "restart: 1", "machine.node-1": "restart: 1"}));
    world.pass(20_000).await;
    assert_eq!(restarts(&world), 1);
    // A fleet that starts anew knows that it was done.
    world.start();
    world.pass(20_000).await;
    assert_eq!(restarts(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn containers_of_a_machine_that_is_cut_off_go_on() {
    let world = world().await;
    let bind = |name: &str, policy: &str, story: Value| {
        let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": story});
        let spec = json!({"nodeName": "node-0", "restartPolicy": policy, "containers": [nginx()]});
        world.server.put("pods", json!({"metadata": metadata, "spec": spec}));
    };
    bind("crasher", "Always", json!({"orrery.dev/crash-after": "15s"}));
    bind("batch", "Never", json!({"orrery.dev/run-for": "40s"}));
    world.pass(5_000).await;
    put_map(&world, json!({"machine.node-0": "network: partitioned"}));
    world.pass(1_000).await;
    let (first, requests) = (renewed_at(&world, "node-0"), world.server.requests().len());
    world.bind("late", nginx());
    world.pass(60_000).await;
    assert_eq!(renewed_at(&world, "node-0"), first);
    assert_eq!(world.status("late"), Value::Null);
    let requests = &world.server.requests()[requests..];
    let users = requests.iter().filter_map(|request| request.headers.get("impersonate-user"));
    assert!(users.into_iter().all(|user| user != "system:node:node-0"));
    put_map(&world, json!({}));
    world.pass(10_000).await;
    assert_ne!(renewed_at(&world, "node-0"), first);
    assert_eq!(world.status("late")["phase"], "Running");
    let container = world.status("web")["containerStatuses"][0].clone();
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(0), &json!(true)));
    let batch = world.status("batch");
    assert_eq!(batch["phase"], "Succeeded");
    let exit = &batch["containerStatuses"][0]["state"]["terminated"];
    let time = |field: &str| exit[field].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(time("finishedAt").duration_since(time("startedAt")).as_secs(), 40);
    let restarts = world.status("crasher")["containerStatuses"][0]["restartCount"].as_i64().unwrap();
    assert_eq!(restarts, 3, "at once, and with back-off of 10 s and of 20 s");
    let starts = world
        .server
        .list("events")
        .into_iter()
        .filter(|event| event["involvedObject"]["name"] == "crasher" && event["reason"] == "Started");
    let counts: i64 = starts.map(|event| event["count"].as_i64().unwrap_or(1)).sum();
    assert_eq!(counts, restarts + 1, "each start is told once");
}

#[tokio::test(start_paused = true)]
async fn nodes_join_by_templates_and_leave() {
    let world = world().await;
    put_map(&world, json!({"template.gpu": "count: 2\ncapacity: {example.com/gpu: 8}"}));
    world.pass(5_000).await;
    let gpu = world.server.get("nodes", "gpu-1").unwrap();
    assert_eq!(gpu["status"]["capacity"]["example.com/gpu"], "8");
    let address = |node: &str| world.server.get("nodes", node).unwrap()["status"]["addresses"][0]["address"].clone();
    assert_ne!(address("gpu-0"), address("node-0"), "machines have addresses of their own");
    assert_ne!(address("gpu-0"), address("gpu-1"));
    put_map(&world, json!({"template.gpu": "count: 1", "machine.node-1": "state: removed"}));
    world.pass(5_000).await;
    assert!(world.server.get("nodes", "gpu-1").is_none() && world.server.get("nodes", "node-1").is_none());
    assert!(world.server.get("nodes", "gpu-0").is_some());
    put_map(&world, json!({}));
    world.pass(5_000).await;
    assert!(world.server.get("nodes", "gpu-0").is_none());
    let back = world.server.get("nodes", "node-1").unwrap();
    assert_eq!(back["status"]["addresses"][0]["address"], "172.18.0.3");
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_events_on_the_config_map() {
    let world = world().await;
    put_map(&world, json!({"machine.node-0": "state: dead", "machine.node-1": "state: killed"}));
    world.pass(12_000).await;
    let expected = "InvalidFleet: data[machine.node-0].state: must be running, shutdown, killed or removed";
    assert_eq!(world.events("orrery-fleet"), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_filled_disk_is_a_pressure() {
    let world = world().await;
    put_map(&world, json!({"machine.node-0": "fillDisk: 95%"}));
    world.pass(30_000).await;
    let pressure = |world: &World| {
        let node = world.server.get("nodes", "node-0").unwrap();
        let conditions = node["status"]["conditions"].as_array().unwrap().clone();
        conditions.iter().find(|condition| condition["type"] == "DiskPressure").unwrap()["status"].clone()
    };
    assert_eq!(pressure(&world), "True");
    put_map(&world, json!({}));
    world.pass(400_000).await;
    assert_eq!(pressure(&world), "False");
}

#[tokio::test(start_paused = true)]
async fn a_slow_machine_takes_longer() {
    let world = world().await;
    put_map(&world, json!({"machine.node-0": "slow: 20x"}));
    world.pass(1_000).await;
    world.bind("late", json!({"name": "web", "image": "httpd:2"}));
    world.bind_to("node-1", "fast", json!({"name": "web", "image": "httpd:2"}));
    world.pass(5_000).await;
    assert_eq!(
        (&world.status("late")["phase"], &world.status("fast")["phase"]),
        (&json!("Pending"), &json!("Running"))
    );
    world.pass(10_000).await;
    assert_eq!(world.status("late")["phase"], "Running");
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_ahead_shows_in_what_the_node_writes() {
    let world = world().await;
    put_map(&world, json!({"machine.node-0": "clockSkew: 1h"}));
    world.pass(30_000).await;
    let (ahead, right) = (renewed_at(&world, "node-0"), renewed_at(&world, "node-1"));
    let time = |text: &str| text.parse::<Timestamp>().unwrap();
    let difference_s = time(&ahead).duration_since(time(&right)).as_secs();
    assert!((3_580..3_620).contains(&difference_s), "{ahead} {right}");
    put_map(&world, json!({}));
    world.pass(30_000).await;
    let container = world.status("web")["containerStatuses"][0].clone();
    assert_eq!((&container["restartCount"], &container["ready"]), (&json!(0), &json!(true)), "{container}");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_stops_ordinary_pods_before_critical_ones() {
    let settings = Settings {
        nodes: 2,
        shutdown_grace_period: Duration::from_secs(30),
        shutdown_grace_period_critical_pods: Duration::from_secs(10),
        ..Settings::default()
    };
    let world = with_settings(settings).await;
    let critical = json!({
        "metadata": {"name": "dns", "namespace": "shop", "uid": "uid-dns"},
        "spec": {"nodeName": "node-0", "priority": 2_000_000_000, "containers": [nginx()]},
    });
    world.server.put("pods", critical);
    let stubborn = json!({
        "metadata": {
            "name": "stubborn", "namespace": "shop", "uid": "uid-stubborn",
            "annotations": {"orrery.dev/stop-time": "8s"},
        },
        "spec": {"nodeName": "node-0", "terminationGracePeriodSeconds": 60, "containers": [nginx()]},
    });
    world.server.put("pods", stubborn);
    world.pass(5_000).await;
    put_map(&world, json!({"machine.node-0": "state: shutdown"}));
    world.pass(4_000).await;
    let web = world.status("web");
    assert_eq!((&web["phase"], &web["reason"]), (&json!("Failed"), &json!("Terminated")));
    assert_eq!(web["message"], "Pod was terminated in response to imminent node shutdown.");
    let disrupted =
        web["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "DisruptionTarget").unwrap().clone();
    assert_eq!((&disrupted["status"], &disrupted["reason"]), (&json!("True"), &json!("TerminationByKubelet")));
    assert_eq!(world.status("dns")["phase"], "Running", "it is stopped last");
    let node = world.server.get("nodes", "node-0").unwrap();
    let ready = node["status"]["conditions"].as_array().unwrap().iter().find(|c| c["type"] == "Ready").unwrap().clone();
    assert_eq!((&ready["status"], &ready["message"]), (&json!("False"), &json!("node is shutting down")));
    world.bind("late", nginx());
    world.pass(1_000).await;
    assert_eq!(world.status("late")["reason"], "NodeShutdown");
    world.pass(10_000).await;
    assert_eq!(world.status("stubborn")["phase"], "Failed");
    assert_eq!(world.status("dns")["phase"], "Failed");
    let first = renewed_at(&world, "node-0");
    world.pass(60_000).await;
    assert_eq!(renewed_at(&world, "node-0"), first, "the machine is off");
    let events = world.events("node-0");
    assert!(events.contains(&"NodeShutdown: Shutdown manager detected shutdown event".to_owned()), "{events:?}");
    put_map(&world, json!({}));
    world.pass(20_000).await;
    assert_ne!(renewed_at(&world, "node-0"), first);
}

#[tokio::test(start_paused = true)]
async fn machines_fail_by_a_model_and_recover() {
    let model = json!({"name": "outage", "failure": "crash", "nodes": ["node-0"], "after": "60s", "for": "30s"});
    let failure_models = vec![FailureModel::read(&model, "").unwrap()];
    let world = with_settings(Settings { nodes: 2, failure_models, ..Settings::default() }).await;
    world.pass(65_000).await;
    let first = renewed_at(&world, "node-0");
    world.pass(12_000).await;
    assert_eq!(renewed_at(&world, "node-0"), first);
    world.pass(30_000).await;
    assert_ne!(renewed_at(&world, "node-0"), first);
    assert_eq!(world.status("web")["containerStatuses"][0]["restartCount"], 1);
}

/// Each process has one node and its identity, which may not delete Nodes.
#[tokio::test(start_paused = true)]
async fn a_single_node_acts_on_its_own_machine_alone() {
    let mut world = World::of(1);
    world.settings.impersonate_nodes = false;
    put_map(&world, json!({"machine.node-1": "restart: before"}));
    for number in [0, 1] {
        world.settings.first_node = number;
        world.start();
    }
    world.pass(100).await;
    world.give_range("node-0", "10.244.0.0/24");
    world.give_range("node-1", "10.244.1.0/24");
    world.bind("web", nginx());
    world.bind_to("node-1", "other", nginx());
    world.pass(10_000).await;
    let restarts = |world: &World, pod: &str| world.status(pod)["containerStatuses"][0]["restartCount"].clone();
    assert_eq!(restarts(&world, "other"), 0, "what the ConfigMap said before was done");

    put_map(&world, json!({"machine.node-1": "restart: now", "template.gpu": "count: 2"}));
    world.pass(20_000).await;
    assert_eq!((restarts(&world, "web"), restarts(&world, "other")), (json!(0), json!(1)));
    assert_eq!(world.server.list("nodes").len(), 2, "no machine joins");

    put_map(&world, json!({"machine.node-1": "network: partitioned"}));
    world.pass(1_000).await;
    let (first, mine) = (renewed_at(&world, "node-1"), renewed_at(&world, "node-0"));
    world.pass(30_000).await;
    assert_eq!(renewed_at(&world, "node-1"), first);
    assert_ne!(renewed_at(&world, "node-0"), mine);

    // A machine that is removed is off. Its Node stays until somebody deletes it.
    put_map(&world, json!({"machine.node-1": "state: removed"}));
    world.pass(1_000).await;
    let first = renewed_at(&world, "node-1");
    world.pass(30_000).await;
    assert_eq!(renewed_at(&world, "node-1"), first);
    assert_eq!(world.server.count("DELETE /api/v1/nodes"), 0);
    world.server.remove("nodes", "node-1");
    put_map(&world, json!({}));
    world.pass(20_000).await;
    assert!(world.server.get("nodes", "node-1").is_some(), "it registers anew");
    assert_ne!(renewed_at(&world, "node-1"), first);
}
