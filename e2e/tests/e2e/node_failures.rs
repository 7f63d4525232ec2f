//! Tests with a stock `kubectl` that machines fail, come back, join and leave, by `orrery node` and by `kubectl` alone.

use crate::{cluster_with, program};
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use std::path::Path;
use std::process::Command;

/// Flags with which a silent node is noticed within seconds.
const FLAGS: &[&str] = &[
    "--kubelet-sim-arg=node-lease-duration=4s",
    "--controller-manager-arg=node-monitor-grace-period=6s",
    "--controller-manager-arg=node-monitor-period=1s",
];

const OBJECTS: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 1}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {app: web}}}
      containers: [{name: web, image: nginx}]
"#;

#[test]
fn machines_fail_and_come_back() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, FLAGS);
    let kubectl = cluster.kubectl();
    let data_dir = directory.path().join("data");
    kubectl.with_input("apply -f -", OBJECTS).succeeded();
    kubectl.ok("rollout status deployment/web --timeout=60s");
    a_killed_node_loses_its_pods(&kubectl, &data_dir);
    a_node_that_is_cut_off_becomes_unreachable(&kubectl);
    nodes_join_and_leave(&kubectl, &data_dir);
    mistakes_are_named(&kubectl, &data_dir);
    cluster.stop();
}

fn node(data_dir: &Path, line: &str) -> Result<String, String> {
    let mut command = Command::new(program());
    let output = command.arg("node").args(line.split(' ')).arg("--data-dir").arg(data_dir).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

fn ready(kubectl: &Kubectl, name: &str) -> String {
    let path = "{.status.conditions[?(@.type=='Ready')].status}";
    kubectl.ok_args(&["get", "node", name, "-o", &format!("jsonpath={path}")])
}

fn a_killed_node_loses_its_pods(kubectl: &Kubectl, data_dir: &Path) {
    let on_node = "get pods -l app=web --field-selector=spec.nodeName=node-1,status.phase=Running -o name";
    assert_ne!(kubectl.ok(on_node), "");
    assert_eq!(node(data_dir, "kill node-1"), Ok("node/node-1 killed\n".to_owned()));
    let pod =
        kubectl.ok("get pods -l app=web --field-selector=spec.nodeName=node-1 -o jsonpath={.items[0].metadata.name}");
    let refused = kubectl.fails(&format!("logs {pod}"));
    assert!(refused.contains("the machine of node \"node-1\" does not answer"), "{refused}");
    wait::until("the node is unknown", || ready(kubectl, "node-1") == "Unknown");
    let taints = kubectl.ok("get node node-1 -o jsonpath={.spec.taints[*].key}");
    assert!(taints.contains("node.kubernetes.io/unreachable"), "{taints}");
    wait::until("other nodes have all replicas", || {
        let elsewhere = "get pods -l app=web --field-selector=spec.nodeName!=node-1,status.phase=Running -o name";
        kubectl.ok(elsewhere).lines().count() == 3
    });
    let left =
        "get pods -l app=web --field-selector=spec.nodeName=node-1 -o jsonpath={.items[*].metadata.deletionTimestamp}";
    assert_ne!(kubectl.ok(left), "", "nobody confirms that its pod has ended");
    assert_eq!(node(data_dir, "restart node-1"), Ok("node/node-1 restarted\n".to_owned()));
    wait::until("the node is ready", || ready(kubectl, "node-1") == "True");
    wait::until("its old pod is gone", || {
        kubectl.ok("get pods -l app=web --field-selector=spec.nodeName=node-1 -o name").is_empty()
    });
    wait::until("it says so", || kubectl.ok("get events").contains("has been rebooted, boot id: "));
}

/// The same change as `orrery node partition` makes, with `kubectl` alone.
fn a_node_that_is_cut_off_becomes_unreachable(kubectl: &Kubectl) {
    let patch = |data: &str| {
        let patch = format!(r#"{{"data":{{"machine.node-2":{data}}}}}"#);
        kubectl.ok_args(&["patch", "configmap", "orrery-fleet", "-n", "kube-system", "--type=merge", "-p", &patch]);
    };
    patch(r#""network: partitioned""#);
    wait::until("the node is unknown", || ready(kubectl, "node-2") == "Unknown");
    patch("null");
    wait::until("the node is ready", || ready(kubectl, "node-2") == "True");
}

fn nodes_join_and_leave(kubectl: &Kubectl, data_dir: &Path) {
    let added = node(data_dir, "add gpu --count=2 --capacity=cpu=32,example.com/gpu=8 --zones=a,b --labels=tier=fast");
    assert_eq!(added, Ok("gpu added\n".to_owned()));
    wait::until("both are ready", || {
        kubectl.run("wait --for=condition=Ready node/gpu-0 node/gpu-1 --timeout=5s").success
    });
    let described =
        kubectl.ok("get node gpu-1 -o jsonpath={.status.allocatable.example\\.com/gpu}-{.metadata.labels.tier}");
    assert_eq!(described, "8-fast");
    kubectl.ok("run trains --image=trainer --overrides={\"spec\":{\"nodeName\":\"gpu-1\"}}");
    kubectl.ok("wait --for=condition=Ready pod/trains --timeout=60s");
    assert_eq!(node(data_dir, "remove gpu-1"), Ok("node/gpu-1 removed\n".to_owned()));
    wait::until("its Node is gone", || !kubectl.run("get node gpu-1").success);
    assert_eq!(node(data_dir, "fill-disk gpu-0"), Ok("node/gpu-0 disk filled\n".to_owned()));
    let pressure = "get node gpu-0 -o jsonpath={.spec.taints[*].key}";
    wait::until("its disk is full", || kubectl.ok(pressure).contains("node.kubernetes.io/disk-pressure"));
}

fn mistakes_are_named(kubectl: &Kubectl, data_dir: &Path) {
    let refused = node(data_dir, "kill none").unwrap_err();
    assert!(refused.contains("nodes \"none\" not found"), "{refused}");
    let refused = node(data_dir, "slow gpu-0 --factor=0").unwrap_err();
    assert!(refused.contains("data[machine.gpu-0].slow: must be a factor from 1 to 1000"), "{refused}");
    let bad = r#"{"data":{"machine.node-2":"state: dead"}}"#;
    kubectl.ok_args(&["patch", "configmap", "orrery-fleet", "-n", "kube-system", "--type=merge", "-p", bad]);
    wait::until("an event says so", || {
        kubectl
            .ok("get events -n kube-system")
            .contains("data[machine.node-2].state: must be running, shutdown, killed or removed")
    });
}
