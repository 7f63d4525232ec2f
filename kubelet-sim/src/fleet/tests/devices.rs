//! Devices that templates give machines, and pods that claim them.

use super::*;
use crate::template::file;

const GPU: &str = r#"
name: gpu
devices:
- driver: gpu.example.com
  name: gpu
  count: 130
  attributes: {model: A100, cores: 108, ecc: true, driverVersion: {version: 1.2.3}, nic.example.com/speed: 400}
  capacity: {memory: 80Gi}
"#;

async fn world() -> World {
    let (templates, problems) = file::parse(GPU);
    assert_eq!(problems, [""; 0]);
    let mut world = World::of(1);
    world.settings.templates = templates;
    world.start();
    world.pass(1_000).await;
    world.give_range("gpu-0", "10.244.0.0/24");
    world
}

#[tokio::test(start_paused = true)]
async fn a_driver_publishes_the_devices_of_its_node() {
    let world = world().await;
    let slices = world.server.list("resourceslices.resource.k8s.io");
    let names: Vec<&str> = slices.iter().filter_map(|slice| slice["metadata"]["name"].as_str()).collect();
    assert_eq!(names, ["gpu-0-gpu.example.com", "gpu-0-gpu.example.com-1"]);
    let uid = world.server.get("nodes", "gpu-0").unwrap()["metadata"]["uid"].clone();
    assert_eq!(slices[0]["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(slices[0]["spec"]["pool"], json!({"name": "gpu-0", "generation": 1, "resourceSliceCount": 2}));
    let devices = slices[0]["spec"]["devices"].as_array().unwrap();
    assert_eq!((devices.len(), &slices[1]["spec"]["devices"][1]["name"]), (128, &json!("gpu-129")));
    let first = &devices[0];
    assert_eq!(first["capacity"], json!({"memory": {"value": "80Gi"}}));
    let attributes =
        [("index", json!({"int": 0})), ("model", json!({"string": "A100"})), ("ecc", json!({"bool": true}))];
    attributes.iter().for_each(|(name, value)| assert_eq!(first["attributes"][*name], *value));
    // An agent that starts again finds its slices, and corrects what was changed meanwhile.
    let writes = |world: &World| world.server.requests().iter().filter(|r| !r.line.starts_with("GET")).count();
    let mut other = slices[1].clone();
    other["spec"]["devices"] = json!([]);
    world.server.put("resourceslices.resource.k8s.io", other);
    let before = writes(&world);
    world.start();
    world.pass(1_000).await;
    assert!(writes(&world) > before);
    let again = world.server.get("resourceslices.resource.k8s.io", "gpu-0-gpu.example.com-1").unwrap();
    assert_eq!(
        (&again["spec"]["pool"]["generation"], &again["spec"]["devices"]),
        (&json!(2), &slices[1]["spec"]["devices"])
    );
}

/// A fleet that starts without devices deletes the slices of its own nodes, and leaves those of others alone.
#[tokio::test(start_paused = true)]
async fn slices_of_an_earlier_run_are_deleted() {
    let world = World::of(1);
    for node in ["node-0", "elsewhere"] {
        let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": []});
        let metadata = json!({"name": format!("{node}-gpu"), "uid": node});
        world.server.put("resourceslices.resource.k8s.io", json!({"metadata": metadata, "spec": spec}));
    }
    world.start();
    world.pass(1_000).await;
    let left = world.server.list("resourceslices.resource.k8s.io");
    assert_eq!(left.iter().map(|slice| &slice["spec"]["nodeName"]).collect::<Vec<_>>(), [&json!("elsewhere")]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_starts_once_its_claim_is_allocated() {
    let world = world().await;
    let claim = |status: Value| {
        world.server.put(
            "resourceclaims.resource.k8s.io",
            json!({"metadata": {"name": "one", "namespace": "shop", "uid": "c1"}, "spec": {}, "status": status}),
        );
    };
    claim(json!({}));
    let container = json!({"name": "web", "image": "nginx:1", "resources": {"claims": [{"name": "gpu"}]}});
    let claims = json!([{"name": "gpu", "resourceClaimName": "one"}]);
    world.server.put(
        "pods",
        json!({
            "metadata": {"name": "train", "namespace": "shop", "uid": "uid-train"},
            "spec": {"nodeName": "gpu-0", "containers": [container], "resourceClaims": claims},
        }),
    );
    world.pass(25_000).await;
    let status = world.status("train");
    assert_eq!(
        (&status["phase"], &status["containerStatuses"][0]["state"]["waiting"]["reason"]),
        (&json!("Pending"), &json!("ContainerCreating"))
    );
    let refused = "Failed to prepare dynamic resources: prepare dynamic resources: pod train (uid-train) is not allowed to \
                   use ResourceClaim one (c1)";
    assert_eq!(world.events("train"), [format!("FailedPrepareDynamicResources: {refused}")]);
    let result = json!({"request": "r", "driver": "gpu.example.com", "pool": "gpu-0", "device": "gpu-0"});
    claim(json!({
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "train", "uid": "uid-train"}],
    }));
    world.pass(15_000).await;
    assert_eq!(world.status("train")["phase"], "Running");
}
