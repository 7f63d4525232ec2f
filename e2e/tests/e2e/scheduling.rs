//! Tests with a stock `kubectl` that taints, affinity, spreading, gates and preemption decide where pods run, and that events say
//! why they do not. Other files have gangs (`gated_kinds`), volumes (`persistent_volumes`), devices, profiles and scripts
//! (`scheduler_profiles`), and extenders.

use crate::program;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, Start, free_ports};
use e2e::store::Store;
use e2e::wait;
use serde_json::{Value, json};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

#[test]
fn pods_run_where_they_may() {
    let directory = tempfile::tempdir().unwrap();
    let (directory, store, port) = (directory.path(), Store::Memory, free_ports());
    let cluster = Cluster::start(&Start { program: program(), directory, store, nodes: 3, port, flags: &[] });
    let kubectl = cluster.kubectl();
    let nodes = kubectl.ok("get nodes -o jsonpath={.items[*].metadata.name}");
    let nodes: Vec<&str> = nodes.split(' ').collect();
    taints_keep_pods_away(&kubectl, nodes[0]);
    affinity_chooses(&kubectl, nodes[1]);
    replicas_spread(&kubectl);
    gates_hold_a_pod(&kubectl);
    a_higher_priority_preempts(&kubectl, nodes[2]);
    cluster.stop();
}

/// Creates a pod of an app, which has the name of the pod.
fn create(kubectl: &Kubectl, name: &str, spec: &Value) {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "nginx"}]},
    });
    pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    kubectl.with_input("create -f -", &pod.to_string()).succeeded();
}

fn runs_on(kubectl: &Kubectl, name: &str) -> String {
    let mut node = String::new();
    wait::until(&format!("{name} has a node"), || {
        node = kubectl.ok(&format!("get pod {name} -o jsonpath={{.spec.nodeName}}"));
        !node.is_empty()
    });
    node
}

fn recorded(kubectl: &Kubectl, name: &str, reason: &str, message: &str) {
    let line =
        format!("get events --field-selector=involvedObject.name={name},reason={reason} -o jsonpath={{..message}}");
    wait::until(&format!("{name} has an event {reason}: {message}"), || kubectl.ok(&line).contains(message));
}

fn on(node: &str) -> Value {
    json!({"kubernetes.io/hostname": node})
}

fn taints_keep_pods_away(kubectl: &Kubectl, node: &str) {
    kubectl.ok(&format!("taint node {node} gpu=yes:NoSchedule"));
    create(kubectl, "kept-away", &json!({"nodeSelector": on(node)}));
    let why = "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 node(s) didn't match Pod's node affinity/selector.";
    recorded(kubectl, "kept-away", "FailedScheduling", why);
    // The scheduler writes it through the newer group.
    let newer = "get events.v1.events.k8s.io --field-selector=regarding.name=kept-away,reason=FailedScheduling";
    let form = kubectl.ok(&format!("{newer} -o jsonpath={{.items[0].reportingController}}/{{.items[0].action}}"));
    assert_eq!(form, "default-scheduler/Scheduling");
    let toleration = json!({"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"});
    create(kubectl, "tolerant", &json!({"nodeSelector": on(node), "tolerations": [toleration]}));
    assert_eq!(runs_on(kubectl, "tolerant"), node);
    kubectl.ok(&format!("taint node {node} gpu-"));
    assert_eq!(runs_on(kubectl, "kept-away"), node);
}

fn affinity_chooses(kubectl: &Kubectl, node: &str) {
    kubectl.ok(&format!("label node {node} disk=ssd"));
    let ssd = json!({"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]});
    create(kubectl, "db", &json!({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [ssd]}}}}));
    assert_eq!(runs_on(kubectl, "db"), node);
    let with_db = |kind: &str| {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}});
        json!({"affinity": {kind: {REQUIRED: [term]}}})
    };
    create(kubectl, "near", &with_db("podAffinity"));
    assert_eq!(runs_on(kubectl, "near"), node);
    create(kubectl, "apart", &with_db("podAntiAffinity"));
    assert_ne!(runs_on(kubectl, "apart"), node);
    let mut nowhere = with_db("podAntiAffinity");
    nowhere["nodeSelector"] = on(node);
    create(kubectl, "nowhere", &nowhere);
    let why = "1 node(s) didn't match pod anti-affinity rules";
    recorded(kubectl, "nowhere", "FailedScheduling", why);
}

fn replicas_spread(kubectl: &Kubectl) {
    let constraint = json!({"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "wide"}}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "wide"},
        "spec": {
            "replicas": 6, "selector": {"matchLabels": {"app": "wide"}},
            "template": {
                "metadata": {"labels": {"app": "wide"}},
                "spec": {"topologySpreadConstraints": [constraint], "containers": [{"name": "c", "image": "nginx"}]},
            },
        },
    });
    kubectl.with_input("create -f -", &deployment.to_string()).succeeded();
    kubectl.ok("rollout status deployment/wide --timeout=60s");
    let nodes = kubectl.ok("get pods --selector=app=wide -o jsonpath={.items[*].spec.nodeName}");
    let mut nodes: Vec<&str> = nodes.split(' ').collect();
    nodes.sort_unstable();
    let pairs: Vec<&[&str]> = nodes.chunks(2).collect();
    assert!(pairs.len() == 3 && pairs.iter().all(|pair| pair[0] == pair[1]), "two on each node: {nodes:?}");
}

fn gates_hold_a_pod(kubectl: &Kubectl) {
    create(kubectl, "gated", &json!({"schedulingGates": [{"name": "example.com/quota"}]}));
    let row = kubectl.ok("get pod gated --no-headers");
    assert!(row.contains("SchedulingGated"), "{row}");
    let remove = r#"[{"op": "remove", "path": "/spec/schedulingGates"}]"#;
    kubectl.ok_args(&["patch", "pod", "gated", "--type=json", "--patch", remove]);
    assert_ne!(runs_on(kubectl, "gated"), "");
}

/// Both pods want the same port of one node.
fn a_higher_priority_preempts(kubectl: &Kubectl, node: &str) {
    kubectl.ok("create priorityclass urgent --value=1000");
    let ports = json!([{"name": "c", "image": "nginx", "ports": [{"containerPort": 80, "hostPort": 9999}]}]);
    create(kubectl, "ordinary", &json!({"nodeSelector": on(node), "containers": ports}));
    assert_eq!(runs_on(kubectl, "ordinary"), node);
    create(kubectl, "urgent", &json!({"nodeSelector": on(node), "containers": ports, "priorityClassName": "urgent"}));
    recorded(kubectl, "ordinary", "Preempted", "Preempted by pod ");
    assert_eq!(runs_on(kubectl, "urgent"), node);
    assert_eq!(kubectl.ok("get pod ordinary --ignore-not-found"), "");
}
