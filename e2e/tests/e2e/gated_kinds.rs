//! Tests with a stock `kubectl` the kinds behind gates: they are served where gate and version are on, and their controllers
//! work.

use crate::program;
use e2e::kubectl::Kubectl;
use e2e::minimal::BARE_REQUEST;
use e2e::processes::{Cluster, Start, free_ports};
use e2e::store::Store;
use e2e::wait;
use serde_json::{Value, json};

const GATES: &str = "feature-gates=ClusterTrustBundle=true,DRADeviceTaintRules=true,GenericWorkload=true,\
                     PodCertificateRequest=true,StorageVersionAPI=true,StorageVersionMigrator=true";

const NODES: &str = r"
name: gpu
devices:
- driver: gpu.example.com
  name: gpu
  count: 2
";

const WIDGETS: &str = r"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.shop.example}
spec:
  group: shop.example
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
  - name: v2
    served: true
    storage: false
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

#[test]
fn kinds_behind_gates_are_served_and_their_controllers_work() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = directory.path().join("nodes.yaml");
    std::fs::write(&nodes, NODES).unwrap();
    let flags = [
        format!("--node-template={}", nodes.display()),
        format!("--apiserver-arg={GATES}"),
        format!("--controller-manager-arg={GATES}"),
        "--apiserver-arg=runtime-config=api/all=true".to_owned(),
        "--scheduler-arg=feature-gates=GenericWorkload=true,GangScheduling=true".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (directory, store, port) = (directory.path(), Store::Memory, free_ports());
    let cluster = Cluster::start(&Start { program: program(), directory, store, nodes: 1, port, flags: &flags });
    let kubectl = cluster.kubectl();
    a_pod_uses_a_device(&kubectl);
    discovery_lists_them(&kubectl);
    the_authority_is_published(&kubectl);
    the_server_reports_what_it_stores(&kubectl);
    stored_objects_are_migrated(&kubectl);
    a_certificate_is_asked_for_and_denied(&kubectl);
    groups_of_pods_are_checked(&kubectl);
    a_gang_runs_as_a_whole(&kubectl);
    a_rule_drives_pods_off(&kubectl);
    cluster.stop();
}

fn create(kubectl: &Kubectl, object: &Value) {
    kubectl.with_input("create -f -", &object.to_string()).succeeded();
}

/// Returns what the server says when it refuses an object.
fn refused(kubectl: &Kubectl, object: &Value) -> String {
    let answer = kubectl.with_input("create -f -", &object.to_string());
    assert!(!answer.success, "{object}");
    answer.stderr
}

/// Starts a pod on the node with a claim whose device is allocated by hand.
fn a_pod_uses_a_device(kubectl: &Kubectl) {
    let request =
        json!({"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}});
    create(
        kubectl,
        &json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "mine"}, "spec": request}),
    );
    let container = json!({
        "name": "c", "image": "busybox", "command": ["sleep", "3600"], "resources": {"claims": [{"name": "gpu"}]}
    });
    let spec = json!({
        "nodeName": "gpu-0", "terminationGracePeriodSeconds": 0, "containers": [container],
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}],
    });
    create(kubectl, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train"}, "spec": spec}));
    let result = json!({"request": "gpu", "driver": "gpu.example.com", "pool": "gpu-0", "device": "gpu-0"});
    let uid = kubectl.ok("get pod train --output=jsonpath={.metadata.uid}");
    let status = json!({"status": {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": "train", "uid": uid}],
    }});
    kubectl.ok_args(&[
        "patch",
        "resourceclaim",
        "mine",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status.to_string(),
    ]);
}

fn discovery_lists_them(kubectl: &Kubectl) {
    let listed = kubectl.ok("api-resources --no-headers");
    for (resource, version) in [
        ("clustertrustbundles", "certificates.k8s.io/v1beta1"),
        ("podcertificaterequests", "certificates.k8s.io/v1beta1"),
        ("storageversions", "internal.apiserver.k8s.io/v1alpha1"),
        ("devicetaintrules", "resource.k8s.io/v1beta2"),
        ("podgroups", "scheduling.k8s.io/v1alpha2"),
        ("workloads", "scheduling.k8s.io/v1alpha2"),
        ("storageversionmigrations", "storagemigration.k8s.io/v1beta1"),
    ] {
        let is_there = |line: &str| line.starts_with(&format!("{resource} ")) && line.contains(version);
        assert!(listed.lines().any(is_there), "{resource}: {listed}");
    }
    let explained = kubectl.ok("explain clustertrustbundles.spec.trustBundle");
    assert!(explained.contains("PEM"), "{explained}");
}

fn the_authority_is_published(kubectl: &Kubectl) {
    let name = "kubernetes.io:kube-apiserver-serving:";
    let bundles = || kubectl.ok("get clustertrustbundles");
    wait::until("the authority is published", || bundles().contains(name));
    let shown = bundles();
    assert!(shown.starts_with("NAME ") && shown.contains("SIGNERNAME"), "{shown}");
    let unsigned = json!({
        "apiVersion": "certificates.k8s.io/v1alpha1", "kind": "ClusterTrustBundle", "metadata": {"name": "empty"},
        "spec": {"trustBundle": ""},
    });
    let why = refused(kubectl, &unsigned);
    assert!(why.contains("at least one trust anchor must be provided"), "{why}");
}

fn the_server_reports_what_it_stores(kubectl: &Kubectl) {
    let common =
        "get storageversions apps.deployments --output=jsonpath={.status.commonEncodingVersion} --ignore-not-found";
    wait::until("the server has reported", || kubectl.ok(common) == "apps/v1");
    let shown = kubectl.ok("get storageversions apps.deployments");
    assert!(shown.contains("COMMONENCODINGVERSION") && shown.contains("=apps/v1"), "{shown}");
}

/// Stores an object in version 1, and migrates it to version 2.
fn stored_objects_are_migrated(kubectl: &Kubectl) {
    kubectl.with_input("create -f -", WIDGETS).succeeded();
    kubectl.ok("wait --for=condition=Established crd/widgets.shop.example --timeout=60s");
    create(kubectl, &json!({"apiVersion": "shop.example/v1", "kind": "Widget", "metadata": {"name": "w"}}));
    let version = || kubectl.ok("get widgets.shop.example w --output=jsonpath={.metadata.resourceVersion}");
    let before = version();
    let versions = json!([
        {"op": "replace", "path": "/spec/versions/0/storage", "value": false},
        {"op": "replace", "path": "/spec/versions/1/storage", "value": true},
    ]);
    kubectl.ok_args(&["patch", "crd", "widgets.shop.example", "--type=json", "-p", &versions.to_string()]);
    let migration = |name: &str, resource: &str| {
        json!({
            "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration", "metadata": {"name": name},
            "spec": {"resource": {"group": "shop.example", "resource": resource}},
        })
    };
    create(kubectl, &migration("widgets", "widgets"));
    kubectl.ok("wait --for=condition=Succeeded storageversionmigration/widgets --timeout=60s");
    let shown = kubectl.ok("get storageversionmigrations");
    assert!(shown.contains("widgets.shop.example"), "{shown}");
    assert_ne!(version(), before, "the object is written again");
    let why = refused(kubectl, &migration("nothing", ""));
    assert!(why.contains("spec.resource.resource: Required value: resource is required"), "{why}");
}

fn a_certificate_is_asked_for_and_denied(kubectl: &Kubectl) {
    let request = |seconds: i64| {
        json!({
            "apiVersion": "certificates.k8s.io/v1beta1", "kind": "PodCertificateRequest", "metadata": {"name": "train"},
            "spec": {
                "signerName": "example.com/signer", "podName": "train", "podUID": "1", "serviceAccountName": "default",
                "serviceAccountUID": "2", "nodeName": "gpu-0", "nodeUID": "3", "maxExpirationSeconds": seconds,
                "stubPKCS10Request": BARE_REQUEST,
            },
        })
    };
    let why = refused(kubectl, &request(60));
    assert!(why.contains("must be in the range [3600, 7862400]"), "{why}");
    create(kubectl, &request(7200));
    let state = || kubectl.ok("get podcertificaterequests train");
    assert!(state().contains("Pending"), "{}", state());
    let denied = json!({"status": {"conditions": [{
        "type": "Denied", "status": "True", "reason": "UnsupportedKeyType", "message": "", "lastTransitionTime": null,
    }]}});
    let denied = denied.to_string();
    kubectl.ok_args(&[
        "patch",
        "podcertificaterequest",
        "train",
        "--subresource=status",
        "--type=merge",
        "-p",
        &denied,
    ]);
    assert!(state().contains("Denied"), "{}", state());
}

fn groups_of_pods_are_checked(kubectl: &Kubectl) {
    let group = |policy: &Value| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "workers"},
            "spec": {"schedulingPolicy": policy},
        })
    };
    let why = refused(kubectl, &group(&json!({})));
    assert!(why.contains("spec.schedulingPolicy: Invalid value: \"\": must specify one of: `basic`, `gang`"), "{why}");
    let mut of_nobody = group(&json!({"gang": {"minCount": 2}}));
    of_nobody["spec"]["podGroupTemplateRef"] =
        json!({"workload": {"workloadName": "nobody", "podGroupTemplateName": "workers"}});
    let why = refused(kubectl, &of_nobody);
    assert!(why.contains("PodGroup rejected: Workload \"nobody\" not found"), "{why}");
    create(kubectl, &group(&json!({"gang": {"minCount": 2}})));
    assert!(kubectl.ok("get podgroups").contains("workers"));
    a_group_stays_while_its_pods_run(kubectl);
}

fn a_group_stays_while_its_pods_run(kubectl: &Kubectl) {
    let spec = json!({
        "schedulingGroup": {"podGroupName": "workers"}, "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "busybox", "command": ["sleep", "3600"]}],
    });
    create(kubectl, &json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"}, "spec": spec}));
    kubectl.ok("delete podgroup workers --wait=false");
    let held = kubectl.ok("get podgroup workers --output=jsonpath={.metadata.deletionTimestamp}{.metadata.finalizers}");
    assert!(held.starts_with('2') && held.ends_with(r#"["scheduling.k8s.io/podgroup-protection"]"#), "{held}");
    kubectl.ok("delete pod worker");
    kubectl.ok("wait --for=delete podgroup/workers --timeout=120s");
}

/// Two pods want the same port of the only node, so that their gang of two has to wait for a third pod.
fn a_gang_runs_as_a_whole(kubectl: &Kubectl) {
    let group = json!({
        "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "pair"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    });
    create(kubectl, &group);
    let pod = |name: &str, ports: Value| {
        let container = json!({"name": "c", "image": "busybox", "command": ["sleep", "3600"], "ports": ports});
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"gang": "pair"}},
            "spec": {
                "schedulingGroup": {"podGroupName": "pair"}, "terminationGracePeriodSeconds": 0,
                "containers": [container],
            },
        })
    };
    for name in ["pair-0", "pair-1"] {
        create(kubectl, &pod(name, json!([{"containerPort": 80, "hostPort": 9999}])));
    }
    kubectl.ok("wait --for=condition=PodGroupScheduled=False podgroup/pair --timeout=120s");
    let nodes = || kubectl.ok("get pods --selector=gang=pair --output=jsonpath={.items[*].spec.nodeName}");
    assert_eq!(nodes(), "");
    let events = || kubectl.ok("get events --field-selector=reason=FailedScheduling");
    let why = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled";
    wait::until("the event says why", || events().contains(why));
    create(kubectl, &pod("pair-2", json!([])));
    kubectl.ok("wait --for=condition=PodGroupScheduled podgroup/pair --timeout=120s");
    wait::until("two pods have the node", || nodes() == "gpu-0 gpu-0");
    kubectl.ok("delete pods --selector=gang=pair");
    kubectl.ok("delete podgroup pair");
}

/// First asks what a taint would do, and then lets it.
fn a_rule_drives_pods_off(kubectl: &Kubectl) {
    kubectl.ok("wait --for=condition=Ready pod/train --timeout=120s");
    let rule = json!({
        "apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceTaintRule", "metadata": {"name": "broken"},
        "spec": {
            "deviceSelector": {"driver": "gpu.example.com", "device": "gpu-0"},
            "taint": {"key": "example.com/broken", "effect": "None"},
        },
    });
    create(kubectl, &rule);
    let condition = |field: &str| {
        let path = format!("{{range .status.conditions[?(@.type==\"EvictionInProgress\")]}}{{.{field}}}{{end}}");
        kubectl.ok_args(&["get", "devicetaintrule", "broken", &format!("--output=jsonpath={path}")])
    };
    wait::until("the rule says what it would do", || condition("reason") == "NoEffect");
    assert!(
        condition("message").starts_with(
            "1 published device selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace if the effect was \
             NoExecute."
        ),
        "{}",
        condition("message")
    );
    let patch = r#"{"spec":{"taint":{"effect":"NoExecute"}}}"#;
    kubectl.ok_args(&["patch", "devicetaintrule", "broken", "--type=merge", "-p", patch]);
    kubectl.ok("wait --for=delete pod/train --timeout=120s");
    wait::until("the rule says what it does", || condition("reason") != "NoEffect");
}
