//! Tests with a stock `kubectl` that one scheduler has several profiles, that SIGHUP changes them, that a script of one changes
//! while they run, and that each decision is explained.

use crate::program;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, Start, free_ports, signal};
use e2e::store::Store;
use e2e::wait;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Writes a configuration: `default-scheduler` spreads pods over the nodes, `packer` has this strategy, and `scripted` has the
/// script beside the file.
fn write(file: &Path, packer: &str) {
    let scripted = json!({
        "schedulerName": "scripted",
        "plugins": {"multiPoint": {"enabled": [{"name": "Script"}]}},
        "pluginConfig": [{"name": "Script", "args": {"path": script(file)}}],
    });
    let profile = |name: &str, strategy: &str| {
        json!({
            "schedulerName": name,
            "plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}},
            "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": strategy}}}],
        })
    };
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile("default-scheduler", "LeastAllocated"), profile("packer", packer), scripted],
    });
    std::fs::write(file, configuration.to_string()).unwrap();
}

fn script(file: &Path) -> PathBuf {
    file.with_file_name("policy.luau")
}

/// Writes a script that evaluates this for each node.
fn write_script(file: &Path, expression: &str) {
    std::fs::write(script(file), format!("function filter(pod, node)\n  return {expression}\nend\n")).unwrap();
}

fn create(kubectl: &Kubectl, name: &str, spec: &Value) {
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "100m"}}});
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]},
    });
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    kubectl.with_input("create -f -", &pod.to_string()).succeeded();
}

/// Creates a pod for a scheduler. Returns the pod's node once it has one.
fn node_of(kubectl: &Kubectl, name: &str, scheduler: &str) -> String {
    create(kubectl, name, &json!({"schedulerName": scheduler}));
    let mut node = String::new();
    wait::until("the pod has a node", || {
        node = kubectl.ok(&format!("get pod {name} -o jsonpath={{.spec.nodeName}}"));
        !node.is_empty()
    });
    node
}

fn try_explain(directory: &Path, line: &str) -> Output {
    let mut command = Command::new(program());
    command.arg("explain").args(line.split(' ')).arg("--data-dir").arg(directory);
    command.output().unwrap()
}

/// Returns what `orrery explain` prints about the cluster in this directory.
fn explain(directory: &Path, line: &str) -> String {
    let output = try_explain(directory, line);
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Checks the explanation of a pod that the packer has put on the full node.
fn check_explanation(directory: &Path, full: &str, empty: &str) {
    let text = explain(directory, "pod packed --verify");
    for expected in [
        "Pod default/packed, attempt 1".to_owned(),
        "profile packer".to_owned(),
        "active because of UnschedulablePodAdd".to_owned(),
        format!("{full}, the best of 2 that fit, of 2 nodes searched"),
        "then: bound".to_owned(),
        "the reference evaluator agrees in all ".to_owned(),
    ] {
        assert!(text.contains(&expected), "{expected} in:\n{text}");
    }
    let text = explain(directory, &format!("pod packed --what-if node={empty}"));
    assert!(text.contains(&format!("the node of the real attempt was another one: {full}")), "{text}");
    let json: Value = serde_json::from_str(&explain(directory, "pod default/packed -o json")).unwrap();
    assert_eq!((&json["choice"]["node"], &json["differences"]), (&json!(full), &json!([])), "{json}");
    let rows = explain(directory, "export --pod default/packed");
    assert!(rows.lines().any(|row| row.contains(",Score,NodeResourcesFit,")), "{rows}");
    assert!(explain(directory, "attempts").contains("default/spread  attempt 1: "));
}

/// A pod with a gate is not tried. Its explanation says what it waits for.
fn check_held_pod(kubectl: &Kubectl, directory: &Path) {
    create(kubectl, "gated", &json!({"schedulingGates": [{"name": "example.com/quota"}]}));
    let mut text = String::new();
    wait::until("the scheduler holds the pod", || {
        text = String::from_utf8(try_explain(directory, "pod gated").stdout).unwrap();
        text.contains("held before the queue")
    });
    for expected in [
        "SchedulingGates: waiting for scheduling gates: [example.com/quota]",
        "an update of the pod that removes the scheduling gate example.com/quota",
    ] {
        assert!(text.contains(expected), "{expected} in:\n{text}");
    }
}

#[test]
fn several_profiles_a_changed_file_and_a_changed_script() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("scheduler.yaml");
    write(&file, "MostAllocated");
    write_script(&file, "'closed by the script'");
    let flag = format!("--scheduler-arg=config={}", file.display());
    let (directory, store, port) = (directory.path(), Store::Memory, free_ports());
    let cluster = Cluster::start(&Start { program: program(), directory, store, nodes: 2, port, flags: &[&flag] });
    let kubectl = cluster.kubectl();
    let nodes = kubectl.ok("get nodes -o jsonpath={.items[*].metadata.name}");
    let (full, empty) = nodes.split_once(' ').unwrap();
    create(&kubectl, "first", &json!({"nodeName": full}));
    assert_eq!(node_of(&kubectl, "packed", "packer"), full);
    assert_eq!(node_of(&kubectl, "spread", "default-scheduler"), empty);
    assert_eq!(node_of(&kubectl, "packed-again", "packer"), full);
    check_explanation(&cluster.data_dir, full, empty);
    check_held_pod(&kubectl, &cluster.data_dir);

    let scheduler = cluster.component("scheduler").unwrap();
    std::fs::write(&file, "profiles: []").unwrap();
    signal("HUP", scheduler);
    assert_eq!(node_of(&kubectl, "after-a-bad-file", "packer"), full);

    write(&file, "LeastAllocated");
    signal("HUP", scheduler);
    let mut tries = 0;
    wait::until("the packer spreads", || {
        tries += 1;
        node_of(&kubectl, &format!("try-{tries}"), "packer") == empty
    });
    a_script_changes(&kubectl, &file, full);
    assert_eq!(cluster.component("scheduler"), Some(scheduler), "the same process");
    cluster.stop();
}

/// Changes the script of a pod that waits, without a signal: to one that fails, and to one that names a node.
fn a_script_changes(kubectl: &Kubectl, file: &Path, node: &str) {
    create(kubectl, "scripted", &json!({"schedulerName": "scripted"}));
    let event = |reason: &str| {
        wait::until(&format!("an event says {reason:?}"), || {
            kubectl.ok("get events --field-selector=involvedObject.name=scripted").contains(reason)
        });
    };
    event("2 closed by the script");
    write_script(file, "node.labels.none.x");
    event("policy.luau:2: attempt to index nil with 'x'");
    assert_ne!(node_of(kubectl, "beside-a-script-that-fails", "default-scheduler"), "");
    write_script(file, &format!("node.name == '{node}'"));
    wait::until("the pod has its node", || kubectl.ok("get pod scripted -o jsonpath={.spec.nodeName}") == node);
}
