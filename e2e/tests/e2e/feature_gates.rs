//! Tests `--feature-gates`: fields exist where their gate is on, and the components work without a feature.

use crate::cluster_with;
use e2e::store::Store;

const GATES: &str =
    "--apiserver-arg=feature-gates=MaxUnavailableStatefulSet=true,HostnameOverride=false,WatchList=false";

const WEB: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 3
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}
  template:
    metadata: {labels: {app: web}}
    spec: {hostnameOverride: other, containers: [{name: web, image: nginx}]}
"#;

#[test]
fn a_gate_says_whether_its_fields_exist() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster_with(directory.path(), Store::Memory, &[GATES]);
    let kubectl = cluster.kubectl();
    kubectl.with_input("create -f -", WEB).succeeded();
    let field = |path: &str| kubectl.ok(&format!("get statefulset web -o jsonpath={{.spec.{path}}}"));
    assert_eq!(field("updateStrategy.rollingUpdate.maxUnavailable"), "2");
    assert_eq!(field("template.spec.hostnameOverride"), "");
    // The controllers' caches use lists instead of watches that begin with a list.
    kubectl.ok("rollout status statefulset/web --timeout=60s");
    let watch = "/api/v1/pods?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1";
    let refused = kubectl.run(&format!("get --raw {watch}"));
    let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
    assert!(refused.stderr.contains(why), "{}", refused.stderr);
    cluster.stop();
}
