//! Tests what a stock `kubectl` and monitoring see of the usage of nodes, pods and containers, with nothing installed.

use crate::cluster;
use e2e::kubectl::Kubectl;
use e2e::store::Store;
use e2e::wait;

const PODS: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Pod
metadata:
  name: cart
  namespace: shop
  labels: {app: cart}
  annotations: {orrery.dev/cpu: 250m, orrery.dev/memory: 64Mi}
spec:
  containers:
  - {name: web, image: nginx, resources: {limits: {cpu: "1", memory: 128Mi}}}
  - {name: side, image: busybox, command: [sleep, "100000"]}
---
apiVersion: v1
kind: Pod
metadata: {name: idle, namespace: shop, annotations: {orrery.dev/cpu: 10m, orrery.dev/memory: 8Mi}}
spec: {containers: [{name: main, image: nginx}]}
"#;

#[test]
fn usage_is_shown_without_a_metrics_server() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), Store::Memory);
    let kubectl = cluster.kubectl();
    kubectl.with_input("apply -f -", PODS).succeeded();
    kubectl.ok("wait -n shop --for=condition=Ready pod --all --timeout=60s");
    top(&kubectl);
    raw(&kubectl);
    permissions(&kubectl);
    cluster.stop();
}

/// Splits a table into its words.
fn words(table: &str) -> Vec<Vec<&str>> {
    table.lines().map(|line| line.split_whitespace().collect()).collect()
}

fn top(kubectl: &Kubectl) {
    let pods = kubectl.ok("top pods -n shop");
    let expected = [["NAME", "CPU(cores)", "MEMORY(bytes)"], ["cart", "500m", "128Mi"], ["idle", "10m", "8Mi"]];
    assert_eq!(words(&pods), expected, "{pods}");
    let containers = kubectl.ok("top pods -A --containers -l app=cart --no-headers");
    let expected = [["shop", "cart", "side", "250m", "64Mi"], ["shop", "cart", "web", "250m", "64Mi"]];
    let mut rows = words(&containers);
    rows.sort();
    assert_eq!(rows, expected, "{containers}");
    let sorted = kubectl.ok("top pods -n shop --sort-by=memory --no-headers");
    assert_eq!(words(&sorted)[0][0], "cart", "{sorted}");
    let nodes = kubectl.ok("top nodes --no-headers");
    assert_eq!(words(&nodes).len(), 3, "{nodes}");
    assert!(nodes.lines().all(|line| line.contains('%')), "{nodes}");
    let refused = kubectl.fails("top pod none -n shop");
    assert!(refused.contains(r#"podmetrics.metrics.k8s.io "shop/none" not found"#), "{refused}");
}

fn raw(kubectl: &Kubectl) {
    let list = kubectl.ok("get --raw /apis/metrics.k8s.io/v1beta1/nodes");
    assert!(list.contains(r#""kind":"NodeMetricsList""#), "{list}");
    let groups = kubectl.ok("api-resources --api-group=metrics.k8s.io --no-headers");
    assert!(groups.contains("NodeMetrics") && groups.contains("PodMetrics"), "{groups}");
    let table = kubectl.ok("get podmetrics -n shop --no-headers");
    assert!(table.starts_with("cart "), "{table}");
    let refused = kubectl.fails("get --raw /apis/metrics.k8s.io/v1beta1/pods?watch=true");
    assert!(refused.contains("watch is not supported on resources of kind \"pods.metrics.k8s.io\""), "{refused}");
    let node = kubectl.ok("get pod cart -n shop -o jsonpath={.spec.nodeName}");
    let page = kubectl.ok(&format!("get --raw /api/v1/nodes/{node}/proxy/metrics/cadvisor"));
    for expected in ["container_cpu_usage_seconds_total{", "container_spec_memory_limit_bytes{", "machine_cpu_cores{"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    let limit = page.lines().find(|line| line.starts_with("container_spec_memory_limit_bytes{container=\"web\""));
    assert!(limit.is_some_and(|line| line.ends_with("} 134217728.0")), "{limit:?}");
}

/// Checks that a user who may view a namespace may view its usage there, and nowhere else.
fn permissions(kubectl: &Kubectl) {
    kubectl.ok("create rolebinding view --clusterrole=view --user=jane -n shop");
    wait::until("the role is aggregated", || kubectl.run("top pods -n shop --as=jane").success);
    let refused = kubectl.fails("top pods -n default --as=jane");
    assert!(refused.contains(r#"User "jane" cannot list resource "pods" in API group "metrics.k8s.io""#), "{refused}");
    let refused = kubectl.fails("top nodes --as=jane");
    assert!(refused.contains(r#"cannot list resource "nodes" in API group "metrics.k8s.io""#), "{refused}");
}
