//! Tests topology-aware hints: endpoints serve zones by the zones' share of the CPU, while there are enough of them.

use crate::cluster_with;
use e2e::store::Store;
use e2e::wait;

const WEB: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, annotations: {service.kubernetes.io/topology-mode: Auto}}
spec: {selector: {app: web}, ports: [{port: 80}]}
"#;

#[test]
fn endpoints_serve_zones_by_their_cpu() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, &[]);
    let kubectl = cluster.kubectl();
    kubectl.ok("label node node-0 topology.kubernetes.io/zone=a");
    kubectl.ok("label node node-1 node-2 topology.kubernetes.io/zone=b");
    kubectl.with_input("create -f -", WEB).succeeded();
    let zones = || {
        let path = "-o=jsonpath={.items[*].endpoints[*].hints.forZones[*].name}";
        let found = kubectl.ok_args(&["get", "endpointslices", "-l", "kubernetes.io/service-name=web", path]);
        let mut zones: Vec<String> = found.split_whitespace().map(str::to_owned).collect();
        zones.sort();
        zones.join(" ")
    };
    let events = |reason: &str| {
        let selector = format!("involvedObject.name=web,reason={reason}");
        kubectl.ok_args(&["get", "events", "--field-selector", &selector, "-o=jsonpath={.items[*].message}"])
    };
    wait::until("each zone gets its share", || zones() == "a b b");
    let enabled = "Topology Aware Hints has been enabled, addressType: IPv4";
    wait::until("an event says so", || events("TopologyAwareHintsEnabled").contains(enabled));
    kubectl.ok("scale deployment web --replicas=1");
    wait::until("one endpoint serves everybody", || zones().is_empty());
    let disabled = "Insufficient number of endpoints (1 endpoints, 2 zones), addressType: IPv4";
    wait::until("an event says why", || events("TopologyAwareHintsDisabled").contains(disabled));
    cluster.stop();
}
