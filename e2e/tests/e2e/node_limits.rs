//! Tests with a stock `kubectl` what a node's limits and manifests do: eviction, drain with a budget, and static pods.

use crate::cluster_with;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

const OBJECTS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: hog, annotations: {orrery.dev/memory: "1Gi, 40Gi@2s"}}
spec: {containers: [{name: main, image: hog}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ending}
data: {code: "3"}
---
apiVersion: v1
kind: Pod
metadata: {name: job}
spec:
  restartPolicy: Never
  volumes: [{name: ending, configMap: {name: ending}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "echo -n told > /dev/termination-log; exit $(cat /etc/ending/code)"]
    volumeMounts: [{name: ending, mountPath: /etc/ending}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx}]
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
"#;

#[test]
fn a_node_has_limits_and_manifests() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, &["--static-control-plane"]);
    let kubectl = cluster.kubectl();
    kubectl.with_input("apply -f -", OBJECTS).succeeded();
    a_command_decides_how_its_job_ends(&kubectl);
    the_control_plane_shows_itself(&kubectl);
    a_greedy_pod_is_evicted(&kubectl);
    a_drain_heeds_the_budget(&kubectl);
    cluster.stop();
}

fn a_command_decides_how_its_job_ends(kubectl: &Kubectl) {
    kubectl.ok("wait --for=jsonpath={.status.phase}=Failed pod/job --timeout=60s");
    let exit = "get pod job --output=jsonpath={.status.containerStatuses[0].state.terminated.exitCode}";
    assert_eq!(kubectl.ok(exit), "3");
    assert_eq!(kubectl.ok(&exit.replace("exitCode", "message")), "told");
}

/// A mirror pod that is deleted comes back; its container has gone on.
fn the_control_plane_shows_itself(kubectl: &Kubectl) {
    let pod = "kube-scheduler-node-0 --namespace=kube-system";
    kubectl.ok(&format!("wait --for=condition=Ready pod/{pod} --timeout=60s"));
    let uid = || kubectl.run(&format!("get pod {pod} --output=jsonpath={{.metadata.uid}}")).succeeded();
    let started = format!("get pod {pod} --output=jsonpath={{.status.containerStatuses[0].state.running.startedAt}}");
    let (first, since) = (uid(), kubectl.ok(&started));
    // A client that waits may miss the moment between the two mirrors.
    kubectl.ok(&format!("delete pod {pod} --wait=false"));
    let found = "get pods --namespace=kube-system --output=jsonpath={.items[*].metadata.uid}";
    wait::until("three mirrors are there", || {
        let uids = kubectl.ok(found);
        uids.split(' ').count() == 3 && !uids.contains(&first)
    });
    wait::until("its status is written", || kubectl.ok(&started) == since);
    let logged = kubectl.ok(&format!("logs {pod}"));
    assert!(logged.contains("registry.k8s.io/kube-scheduler:v"), "{logged}");
}

/// With one replica on the drained node and no room elsewhere than the third node, the budget holds all the time.
fn a_drain_heeds_the_budget(kubectl: &Kubectl) {
    kubectl.ok("rollout status deployment/web --timeout=60s");
    let node = kubectl.ok("get pods -l app=web --output=jsonpath={.items[0].spec.nodeName}");
    kubectl.ok(&format!("drain {node} --force --ignore-daemonsets --delete-emptydir-data --timeout=60s"));
    let left = kubectl.ok(&format!("get pods -l app=web --field-selector=spec.nodeName={node} --output=name"));
    assert_eq!(left, "");
    kubectl.ok(&format!("uncordon {node}"));
    kubectl.ok("rollout status deployment/web --timeout=60s");
}

fn a_greedy_pod_is_evicted(kubectl: &Kubectl) {
    kubectl.ok("wait --for=jsonpath={.status.reason}=Evicted pod/hog --timeout=60s");
    let message = kubectl.ok("get pod hog --output=jsonpath={.status.message}");
    let expected = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 0. Container main was using \
                    40Gi, request is 0, has larger consumption of memory. ";
    assert_eq!(message, expected);
    let node = kubectl.ok("get pod hog --output=jsonpath={.spec.nodeName}");
    let taints = format!("get node {node} --output=jsonpath={{.spec.taints[*].key}}");
    wait::until("the node is tainted", || kubectl.ok(&taints).contains("node.kubernetes.io/memory-pressure"));
}
