//! Objects that change the behaviour of running pods: rules of a ConfigMap, and Stages.

use super::*;

fn put_rules(world: &World, rules: &str) {
    let metadata = json!({"name": "orrery-behaviour", "namespace": "kube-system", "uid": "rules"});
    world.server.put("configmaps", json!({"metadata": metadata, "data": {"rules": rules}}));
}

fn ready(world: &World, pod: &str) -> bool {
    world.status(pod)["containerStatuses"][0]["ready"] == true
}

async fn world() -> World {
    let world = World::of(1);
    world.start();
    world.pass(100).await;
    world.give_range("node-0", "10.244.3.0/24");
    world
}

#[tokio::test(start_paused = true)]
async fn rules_change_running_pods_and_go_away_again() {
    let world = world().await;
    let probed =
        json!({"name": "web", "image": "nginx:1", "readinessProbe": {"tcpSocket": {"port": 80}, "periodSeconds": 1}});
    world.bind("web", probed);
    world.bind("batch", json!({"name": "c", "image": "busybox:1"}));
    world.pass(10_000).await;
    assert!(ready(&world, "web"));
    put_rules(
        &world,
        "[{namespaces: [sh*], images: ['nginx:*'], words: {readiness: fail}}, {images: [busybox*], words: {run-for: 30s, exit-code: '3'}}]",
    );
    world.pass(5_000).await;
    assert!(!ready(&world, "web"));
    let annotations = world.server.get("pods", "shop/web").unwrap()["metadata"]["annotations"].clone();
    assert_eq!(annotations, Value::Null, "the manifest is as it was");
    world.pass(30_000).await;
    let batch = world.status("batch")["containerStatuses"][0].clone();
    assert_eq!(batch["lastState"]["terminated"]["exitCode"], 3, "{batch}");

    // The manifest's own word goes before.
    let mut pod = world.server.get("pods", "shop/web").unwrap();
    pod["metadata"]["annotations"] = json!({"orrery.dev/readiness": "ok"});
    world.server.put("pods", pod.clone());
    world.pass(5_000).await;
    assert!(ready(&world, "web"));
    pod["metadata"]["annotations"] = Value::Null;
    pod["status"] = world.status("web");
    world.server.put("pods", pod);
    world.pass(5_000).await;
    assert!(!ready(&world, "web"));
    world.server.remove("configmaps", "kube-system/orrery-behaviour");
    world.pass(5_000).await;
    assert!(ready(&world, "web"));
    assert!(world.events("web").iter().all(|event| !event.starts_with("InvalidStory")));
}

#[tokio::test(start_paused = true)]
async fn mistakes_in_rules_are_events_on_the_config_map() {
    let world = world().await;
    world.bind("web", nginx());
    put_rules(&world, "[{words: {livenes: fail}}, {words: {run-for: 5s, exit-code: '1'}}]");
    world.pass(12_000).await;
    assert_eq!(world.events("orrery-behaviour"), ["InvalidBehaviour: data.rules[0].words.livenes: no word of a story"]);
    let status = world.status("web")["containerStatuses"][0].clone();
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1, "the other rule counts");
}

#[tokio::test(start_paused = true)]
async fn stages_may_be_objects_of_the_api_server() {
    let world = world().await;
    world.bind("web", nginx());
    world.pass(5_000).await;
    assert_eq!(world.status("web")["phase"], "Running");
    let stage = |template: &str| {
        json!({
            "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage",
            "metadata": {"name": "fails", "uid": "s", "generation": 1, "managedFields": []},
            "spec": {
                "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
                "selector": {"matchExpressions": [{"key": ".status.phase", "operator": "In", "values": ["Running"]}]},
                "next": {"statusTemplate": template, "statusSubresource": "status"},
            },
        })
    };
    world.server.put("stages.kwok.x-k8s.io", stage("{{ nothing }}"));
    world.pass(2_000).await;
    let refused = ["InvalidStage: spec.next.statusTemplate: function \"nothing\" not defined"];
    assert_eq!(world.events("fails"), refused);
    assert_eq!(world.status("web")["phase"], "Running");
    world.server.put("stages.kwok.x-k8s.io", stage("phase: Failed"));
    world.pass(2_000).await;
    assert_eq!(world.status("web")["phase"], "Failed");
    world.server.remove("stages.kwok.x-k8s.io", "fails");
    world.bind("next", nginx());
    world.pass(5_000).await;
    assert_eq!(world.status("next")["phase"], "Running");
}

/// Returns a world of processes with the identities of single nodes, which have started.
async fn single_nodes(count: u32) -> World {
    let mut world = World::of(1);
    world.settings.impersonate_nodes = false;
    for number in 0..count {
        world.settings.first_node = number;
        world.start();
    }
    world.pass(100).await;
    world.give_range("node-0", "10.244.3.0/24");
    world
}

#[tokio::test(start_paused = true)]
async fn single_nodes_watch_only_the_two_config_maps_and_report_a_mistake_once() {
    let world = single_nodes(3).await;
    world.bind("web", nginx());
    put_rules(&world, "[{words: {livenes: fail}}, {words: {run-for: 5s, exit-code: '1'}}]");
    world.pass(12_000).await;
    let mistake = "InvalidBehaviour: data.rules[0].words.livenes: no word of a story";
    assert_eq!(world.events("orrery-behaviour"), [mistake], "three processes have found it");
    let status = world.status("web")["containerStatuses"][0].clone();
    assert_eq!(status["lastState"]["terminated"]["exitCode"], 1, "the other rule counts");
    // As long as the mistake is there, it stays the same event.
    put_rules(&world, "[{words: {livenes: fail}}]");
    world.pass(12_000).await;
    assert_eq!(world.events("orrery-behaviour"), [mistake]);
    for request in world.server.requests().iter().filter(|request| request.line.contains("/configmaps?")) {
        let one = ["fieldSelector=metadata.name%3Dorrery-behaviour", "fieldSelector=metadata.name%3Dorrery-fleet"];
        assert!(request.line.contains("/namespaces/kube-system/configmaps?"), "{}", request.line);
        assert!(one.iter().any(|selector| request.line.contains(selector)), "{}", request.line);
    }
}

/// An API server that is not Orrery's has no role that lets nodes read them.
#[tokio::test(start_paused = true)]
async fn a_node_that_may_read_nothing_goes_on_and_asks_again_after_minutes() {
    let mut world = World::of(1);
    world.settings.impersonate_nodes = false;
    let refusal = || Status::forbidden("", "configmaps", "", "no rule allows it");
    for path_contains in ["orrery-behaviour", "orrery-fleet"] {
        world.server.fault(Fault { path_contains, answer: refusal(), retry_after_s: None });
    }
    put_rules(&world, "[{words: {run-for: 5s, exit-code: '1'}}]");
    world.start();
    world.pass(100).await;
    world.give_range("node-0", "10.244.3.0/24");
    world.bind("web", nginx());
    world.pass(60_000).await;
    assert_eq!((world.server.count("orrery-behaviour"), world.server.count("orrery-fleet")), (1, 1));
    let web = || world.status("web")["containerStatuses"][0].clone();
    assert_eq!((&web()["ready"], &web()["restartCount"]), (&json!(true), &json!(0)));
    // Whoever upgrades the API server need not restart the nodes.
    world.pass(300_000).await;
    assert_ne!(web()["restartCount"], 0);
}
