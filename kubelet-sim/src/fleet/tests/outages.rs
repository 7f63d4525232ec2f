//! Fleets in trouble: the API server is away for minutes, or far too many pods are bound to a node.

use super::*;

/// Cuts the fleet off for ten minutes.
async fn outage(world: &World) {
    registry(&world.env).remove(AUTHORITY);
    world.server.cut_watches();
    world.pass(600_000).await;
    registry(&world.env).register(AUTHORITY, world.server.service());
    world.pass(30_000).await;
}

async fn world() -> World {
    let world = World::of(1);
    world.start();
    world.pass(100).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.server.put("configmaps", json!({"metadata": {"name": "game", "namespace": "shop"}, "data": {"lives": "3"}}));
    world
}

fn bind_with_story(world: &World, name: &str, story: Value, env: Value) {
    let metadata = json!({
        "name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": story,
        "creationTimestamp": world.env.wall(),
    });
    let container = json!({"name": "web", "image": "nginx:1", "env": env});
    let spec = json!({"nodeName": "node-0", "containers": [container]});
    world.server.put("pods", json!({"metadata": metadata, "spec": spec}));
}

/// Returns the restarts, and how many starts the events count.
fn restarts_and_starts(world: &World, pod: &str) -> (i64, i64) {
    let restarts = world.status(pod)["containerStatuses"][0]["restartCount"].as_i64().unwrap();
    let of_starts = world
        .server
        .list("events")
        .into_iter()
        .filter(|event| event["involvedObject"]["name"] == *pod && event["reason"] == "Started");
    (restarts, of_starts.map(|event| event["count"].as_i64().unwrap_or(1)).sum())
}

#[tokio::test(start_paused = true)]
async fn containers_crash_and_restart_while_the_server_is_away() {
    let from_config = json!([{"name": "LIVES", "valueFrom": {"configMapKeyRef": {"name": "game", "key": "lives"}}}]);
    let mut seen = Vec::new();
    for is_away in [false, true] {
        let world = world().await;
        bind_with_story(&world, "crasher", json!({"orrery.dev/crash-after": "15s"}), from_config.clone());
        bind_with_story(&world, "steady", json!({}), json!([]));
        world.pass(20_000).await;
        match is_away {
            true => outage(&world).await,
            false => world.pass(630_000).await,
        }
        let (restarts, starts) = restarts_and_starts(&world, "crasher");
        assert!(starts <= restarts + 1, "{starts} starts of {restarts} restarts");
        assert_eq!(restarts_and_starts(&world, "steady"), (0, 1));
        let status = world.status("crasher")["containerStatuses"][0].clone();
        seen.push((restarts, status["state"].clone(), status["lastState"]["terminated"]["exitCode"].clone()));
    }
    assert_eq!(seen[0], seen[1], "the outage changes nothing but the reports");
    assert_eq!(seen[0].0, 6);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_ends_while_the_server_is_away_is_reported_with_its_times() {
    let world = world().await;
    bind_with_story(&world, "batch", json!({"orrery.dev/run-for": "60s"}), json!([]));
    let mut pod = world.server.get("pods", "shop/batch").unwrap();
    pod["spec"]["restartPolicy"] = json!("Never");
    world.server.put("pods", pod);
    world.pass(20_000).await;
    outage(&world).await;
    let status = world.status("batch");
    assert_eq!(status["phase"], "Succeeded");
    let exit = &status["containerStatuses"][0]["state"]["terminated"];
    let time = |field: &str| exit[field].as_str().unwrap().parse::<Timestamp>().unwrap();
    assert_eq!(time("finishedAt").duration_since(time("startedAt")).as_secs(), 60);
}

/// A node to which far too many pods are bound takes as many as it can, and refuses each other one with one write.
#[tokio::test(start_paused = true)]
async fn a_node_takes_its_most_pods_and_refuses_the_crowd() {
    const BOUND: usize = 10_000;
    let world = World::of(1);
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.0.0/24");
    let before = world.server.requests().len();
    for n in 0..BOUND {
        world.bind(&format!("web-{n}"), nginx());
    }
    world.pass(120_000).await;
    let pods = world.server.list("pods");
    let count = |field: &str, value: &str| pods.iter().filter(|pod| pod["status"][field] == *value).count();
    assert_eq!((count("phase", "Running"), count("reason", "OutOfpods")), (110, BOUND - 110));
    let refused = pods.iter().find(|pod| pod["status"]["reason"] == "OutOfpods").unwrap();
    let lack = "Node didn't have enough resource: pods, requested: 1, used: 110, capacity: 110";
    assert_eq!(refused["status"]["message"], format!("Pod was rejected: {lack}"));
    let writes = world.server.count("/status");
    assert!(writes <= BOUND + 300, "{writes} writes of statuses");
    let requests = world.server.requests().len() - before;
    assert!(requests <= 2 * BOUND + 1_000, "{requests} requests for {BOUND} pods");
}

/// A probe that fails each second for twenty minutes is recorded as client-go's recorder does: 25 events of a pod at once,
/// and then one in five minutes.
#[tokio::test(start_paused = true)]
async fn a_storm_of_events_is_cut_off() {
    let world = world().await;
    let probe = json!({"tcpSocket": {"port": 81}, "periodSeconds": 1});
    let ports = json!([{"containerPort": 80}]);
    world.bind("web", json!({"name": "web", "image": "nginx:1", "ports": ports, "readinessProbe": probe}));
    world.pass(1_200_000).await;
    let failures = |event: &&Value| event["reason"] == "Unhealthy" && event["involvedObject"]["name"] == "web";
    let events = world.server.list("events");
    let unhealthy: Vec<&Value> = events.iter().filter(failures).collect();
    assert_eq!(unhealthy.len(), 1, "equal events are one");
    let writes =
        world.server.requests().iter().filter(|request| request.line.contains("/namespaces/shop/events")).count();
    assert!((25..=30).contains(&writes), "{writes} writes of events");
    let count = unhealthy[0]["count"].as_u64().unwrap();
    assert!(count > 300, "the count goes on: {count}");
}

/// Events of the time without a server have the times at which they occurred, and come in their order.
#[tokio::test(start_paused = true)]
async fn events_are_recorded_in_order_once_the_server_is_back() {
    let world = world().await;
    bind_with_story(&world, "crasher", json!({"orrery.dev/crash-after": "15s"}), json!([]));
    world.pass(10_000).await;
    let began = world.env.wall();
    outage(&world).await;
    let of_starts = |event: &&Value| event["involvedObject"]["name"] == "crasher" && event["reason"] == "Started";
    let events = world.server.list("events");
    let starts: Vec<&Value> = events.iter().filter(of_starts).collect();
    assert_eq!(starts.len(), 1, "equal events are one");
    assert_eq!(starts[0]["count"], 7, "the first start and six restarts");
    let last: Timestamp = starts[0]["lastTimestamp"].as_str().unwrap().parse().unwrap();
    let after_s = last.duration_since(began).as_secs();
    assert!((380..420).contains(&after_s), "the last restart was {after_s} s after the beginning of the outage");
}

/// The Node would own the lease, and the garbage collector would delete it each time.
#[tokio::test(start_paused = true)]
async fn a_node_whose_object_was_deleted_makes_no_lease() {
    let world = world().await;
    let leases = || world.server.list("leases.coordination.k8s.io").len();
    assert_eq!(leases(), 1);
    world.server.remove("nodes", "node-0");
    world.server.remove("leases.coordination.k8s.io", "kube-node-lease/node-0");
    world.pass(60_000).await;
    assert_eq!(leases(), 0);
}
