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

/// The authorizer shows a node no ConfigMap that its pods do not use, and no custom resource.
#[tokio::test(start_paused = true)]
async fn a_node_with_an_identity_of_its_own_does_not_look() {
    let mut world = World::of(1);
    world.settings.impersonate_nodes = false;
    world.start();
    world.pass(60_000).await;
    assert_eq!((world.server.count("orrery-behaviour"), world.server.count("stages")), (0, 0));
}
