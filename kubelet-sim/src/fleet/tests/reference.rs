//! What a fleet writes about pods agrees with the reference for one container.

use super::*;
use client::Client;
use component_base::rng::Random;
use parking_lot::Mutex;
use pod_life::latency::Latency;
use pod_life::testing::reference::{DrawnContainer, END_MS, Timeline, line, push, reference};
use std::collections::BTreeMap;

/// Pods of the run: fewer than one node takes.
const PODS: u64 = 100;

fn name(seed: u64) -> String {
    format!("drawn-{seed}")
}

/// A node that has the image of all drawn containers.
async fn world() -> World {
    let world = World::of(1);
    world.start();
    world.pass(1_000).await;
    world.give_range("node-0", "10.244.3.0/24");
    let mut node = world.server.get("nodes", "node-0").unwrap();
    node["status"]["images"] = json!([{"names": ["docker.io/library/a:latest"], "sizeBytes": 1_000_000}]);
    world.server.put("nodes", node);
    world.pass(1_000).await;
    world
}

/// Records the timelines of all pods as a watcher sees them, with the milliseconds since `began`.
fn timelines(world: &World, began: Timestamp) -> Arc<Mutex<BTreeMap<String, Timeline>>> {
    let connection = Connection { server: format!("https://{AUTHORITY}"), ..Connection::default() };
    let informers = Informers::new(&Client::connect(&world.env, &connection, "watcher").unwrap());
    let (recorded, env) = (Arc::new(Mutex::new(BTreeMap::new())), world.env.clone());
    let timelines = recorded.clone();
    informers.of::<Pod>().on_event(move |event: &Event<Pod>| {
        let pod = event.object();
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
        let Some(status) = statuses.and_then(|statuses| statuses.first()) else { return };
        let now_ms = env.wall().duration_since(began).as_millis() as i64;
        push(timelines.lock().entry(pod.name().to_owned()).or_default(), now_ms, line(status));
    });
    informers.start();
    recorded
}

/// Marks a pod as deleted, as the API server does.
fn delete(world: &World, name: &str, grace_s: i64) {
    // A pod that has ended is gone already.
    let Some(mut pod) = world.server.get("pods", &format!("shop/{name}")) else { return };
    pod["metadata"]["deletionGracePeriodSeconds"] = json!(grace_s);
    pod["metadata"]["deletionTimestamp"] = json!(world.env.wall() + Duration::from_secs(grace_s as u64));
    world.server.put("pods", pod);
}

#[tokio::test(start_paused = true)]
async fn a_fleet_writes_what_a_plain_loop_says() {
    let world = world().await;
    let began = world.env.wall();
    let found = timelines(&world, began);
    let drawn: Vec<DrawnContainer> =
        (0..PODS).map(|seed| DrawnContainer::draw(&Random::from_seed(seed, "reference"))).collect();
    for (seed, container) in drawn.iter().enumerate() {
        let (mut spec, story) = container.pod();
        spec["nodeName"] = json!("node-0");
        let name = name(seed as u64);
        let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "annotations": story});
        world.server.put("pods", json!({"metadata": metadata, "spec": spec}));
    }
    let mut deletions: Vec<(i64, usize)> = drawn.iter().map(|drawn| drawn.deleted_ms).zip(0..).collect();
    deletions.sort_unstable();
    for (deleted_ms, seed) in deletions.into_iter().filter(|(at_ms, _)| *at_ms < END_MS) {
        let until_ms = deleted_ms - world.env.wall().duration_since(began).as_millis() as i64;
        world.pass(until_ms as u64).await;
        delete(&world, &name(seed as u64), drawn[seed].grace_s);
    }
    let until_ms = END_MS - world.env.wall().duration_since(began).as_millis() as i64;
    world.pass(until_ms as u64 + 1).await;

    let latency = Latency::default();
    let first_start_ms = (latency.sandbox + latency.container_start).as_millis() as i64;
    let start_latency_ms = latency.container_start.as_millis() as i64;
    for (seed, container) in drawn.iter().enumerate() {
        let expected = reference(container, first_start_ms, start_latency_ms);
        assert_eq!(found.lock()[&name(seed as u64)], expected, "seed {seed}: {container:?}");
    }
}
