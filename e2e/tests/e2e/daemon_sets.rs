//! Tests with a stock `kubectl` that a DaemonSet has a pod on every node that it fits, is updated and rolled back, and
//! survives drained nodes.

use crate::{cluster, program};
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;
use std::path::Path;
use std::process::Command;

const LOGS: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: logs, annotations: {kubernetes.io/change-cause: first}}
spec:
  selector: {matchLabels: {app: logs}}
  template:
    metadata: {labels: {app: logs}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: logs, image: "fluentd:1"}]
---
# The scheduler does not look at its pod, and the node has no room for it.
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: greedy}
spec:
  selector: {matchLabels: {app: greedy}}
  template:
    metadata: {labels: {app: greedy}}
    spec:
      nodeName: node-1
      containers: [{name: greedy, image: nginx, resources: {requests: {cpu: "1000"}}}]
"#;

#[test]
fn daemons_run_on_every_node() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    kubectl.ok("taint nodes node-2 gpu=yes:NoSchedule");
    kubectl.with_input("apply -f -", LOGS).succeeded();
    nodes_without_taints_get_a_pod(&kubectl);
    orphans_are_adopted(&kubectl);
    templates_are_rolled_out_and_back(&kubectl);
    an_update_with_surge_keeps_every_node_served(&kubectl);
    a_node_that_joins_gets_a_pod(&kubectl, &directory.path().join("data"));
    drained_nodes_keep_theirs(&kubectl);
    refused_pods_are_reported(&kubectl);
    the_pods_go_with_their_daemon_set(&kubectl);
    cluster.stop();
}

/// Returns the nodes of the running pods, in order.
fn nodes(kubectl: &Kubectl) -> String {
    let path = "{.items[*].spec.nodeName}";
    let line = ["get", "pods", "-l", "app=logs", "--sort-by=.spec.nodeName", "-o"];
    kubectl.ok_args(&[&line[..], &[&format!("jsonpath={path}")]].concat())
}

fn counts(kubectl: &Kubectl) -> String {
    let path = "{.status.desiredNumberScheduled} {.status.numberAvailable} {.status.updatedNumberScheduled}";
    kubectl.ok_args(&["get", "ds", "logs", "-o", &format!("jsonpath={path}")])
}

fn images(kubectl: &Kubectl) -> String {
    kubectl.ok("get pods -l app=logs -o jsonpath={.items[*].spec.containers[*].image}")
}

fn nodes_without_taints_get_a_pod(kubectl: &Kubectl) {
    let status = kubectl.ok("rollout status ds/logs --timeout=60s");
    assert!(status.contains("daemon set \"logs\" successfully rolled out"), "{status}");
    assert_eq!((nodes(kubectl).as_str(), counts(kubectl).as_str()), ("node-0 node-1", "2 2 2"));
    kubectl.ok("taint nodes node-2 gpu-");
    wait::until("the third node has one", || counts(kubectl) == "3 3 3");
    assert_eq!(nodes(kubectl), "node-0 node-1 node-2");
    let described = kubectl.ok("describe ds logs");
    assert!(described.contains("SuccessfulCreate  ") && described.contains("Created pod: logs-"), "{described}");
}

/// A new DaemonSet of the same name takes over the pods and the history of the former one.
fn orphans_are_adopted(kubectl: &Kubectl) {
    let pods = || kubectl.ok("get pods -l app=logs -o name");
    let owners = || {
        kubectl.ok("get pods,controllerrevisions -l app=logs -o jsonpath={.items[*].metadata.ownerReferences[*].uid}")
    };
    let before = pods();
    kubectl.ok("delete ds logs --cascade=orphan");
    wait::until("nobody owns them", || owners().is_empty());
    kubectl.with_input("apply -f -", LOGS).succeeded();
    let uid = kubectl.ok("get ds logs -o jsonpath={.metadata.uid}");
    wait::until("the new one owns them", || owners() == [uid.as_str(); 4].join(" "));
    kubectl.ok("rollout status ds/logs --timeout=60s");
    assert_eq!(pods(), before);
}

fn templates_are_rolled_out_and_back(kubectl: &Kubectl) {
    let roll_out = |line: &str, image: &str| {
        kubectl.ok(line);
        kubectl.ok("rollout status ds/logs --timeout=60s");
        assert_eq!(images(kubectl), [image; 3].join(" "), "{line}");
    };
    let history = || kubectl.ok("rollout history ds/logs");
    let revisions = || history().lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect::<Vec<u32>>();
    assert!(history().contains("1         first"), "{}", history());
    roll_out("set image ds/logs logs=fluentd:2", "fluentd:2");
    assert_eq!(revisions(), [1, 2]);
    assert!(kubectl.ok("rollout history ds/logs --revision=1").contains("fluentd:1"));
    roll_out("rollout undo ds/logs", "fluentd:1");
    assert_eq!(revisions(), [2, 3]);
    roll_out("rollout restart ds/logs", "fluentd:1");
    assert_eq!(revisions(), [2, 3, 4]);
    assert!(kubectl.fails("rollout pause ds/logs").contains("pausing is not supported"));
}

fn an_update_with_surge_keeps_every_node_served(kubectl: &Kubectl) {
    let rolling = r#"{"spec":{"updateStrategy":{"rollingUpdate":{"maxSurge":"100%","maxUnavailable":0}}}}"#;
    kubectl.ok_args(&["patch", "ds", "logs", "-p", rolling]);
    kubectl.ok("set image ds/logs logs=fluentd:3");
    kubectl.ok("rollout status ds/logs --timeout=60s");
    wait::until("the old pods are gone", || images(kubectl) == "fluentd:3 fluentd:3 fluentd:3");
}

fn a_node_that_joins_gets_a_pod(kubectl: &Kubectl, data_dir: &Path) {
    let mut add = Command::new(program());
    let added = add.args(["node", "add", "extra", "--count=1", "--data-dir"]).arg(data_dir).output().unwrap();
    assert!(added.status.success(), "{added:?}");
    wait::until("the new node has one", || counts(kubectl) == "4 4 4");
    assert_eq!(nodes(kubectl), "extra-0 node-0 node-1 node-2");
}

fn drained_nodes_keep_theirs(kubectl: &Kubectl) {
    let refused = kubectl.fails("drain node-0");
    assert!(refused.contains("cannot delete DaemonSet-managed Pods"), "{refused}");
    let drained = kubectl.ok("drain node-0 --ignore-daemonsets --timeout=60s");
    assert!(drained.contains("node/node-0 drained"), "{drained}");
    assert_eq!(nodes(kubectl), "extra-0 node-0 node-1 node-2");
}

fn refused_pods_are_reported(kubectl: &Kubectl) {
    let events =
        "get events --field-selector=involvedObject.name=greedy,reason=FailedDaemonPod -o jsonpath={..message}";
    wait::until("an event says so", || kubectl.ok(events).contains(" on node node-1, will try to kill it"));
}

fn the_pods_go_with_their_daemon_set(kubectl: &Kubectl) {
    kubectl.ok("delete ds logs --cascade=foreground --timeout=60s");
    assert_eq!(nodes(kubectl), "");
    assert_eq!(kubectl.ok("get controllerrevisions -l app=logs -o name"), "");
}
