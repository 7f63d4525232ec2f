//! Runs a policy in Python beside a cluster: an extender that `labs/policies/python` serves.

use crate::program;
use component_base_testing::test_needs;
use e2e::kubectl::Kubectl;
use e2e::processes::{Cluster, Start, free_ports};
use e2e::programs;
use e2e::store::Store;
use e2e::wait;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../labs/policies/python");
/// The lab's example. The test changes its port and its weight.
const EXAMPLE: &str = include_str!("../../../labs/policies/python/examples/ssd.py");
const ITS_PORT: &str = "port=8888";

/// Returns an interpreter with the package, installed once as the lab's page says.
fn interpreter() -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("orrery-policies");
    programs::python(&home, "orrery_policies", &["-e", PACKAGE])
}

/// A policy that runs until it is dropped.
struct Policy(Child);

impl Policy {
    /// Starts a policy. Returns the entry for the scheduler's configuration that it prints.
    fn start() -> (Self, Value) {
        assert!(EXAMPLE.contains(ITS_PORT));
        let policy = EXAMPLE.replace(ITS_PORT, "port=0, weight=100");
        let mut command = Command::new(interpreter());
        let mut child = command.args(["-c", &policy]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let entry = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        (Self(child), entry)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn create(kubectl: &Kubectl, name: &str) {
    kubectl.ok(&format!("run {name} --image=nginx"));
}

fn wait_for_event(kubectl: &Kubectl, name: &str, expected: &str) {
    wait::until(&format!("an event of {name}: {expected}"), || {
        kubectl.ok(&format!("describe pod {name}")).contains(expected)
    });
}

fn wait_for_node(kubectl: &Kubectl, name: &str, expected: &str) {
    wait::until(&format!("{name} is on {expected}"), || {
        kubectl.ok(&format!("get pod {name} -o jsonpath={{.spec.nodeName}}")) == expected
    });
}

#[test]
fn a_policy_in_python_decides() {
    if !test_needs::everything("setuptools from PyPI") {
        return;
    }
    let (policy, extender) = Policy::start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("scheduler.yaml");
    let configuration = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "podMaxBackoffSeconds": 1,
        "extenders": [extender],
    });
    std::fs::write(&file, configuration.to_string()).unwrap();
    let flag = format!("--scheduler-arg=config={}", file.display());
    let (directory, store, port) = (directory.path(), Store::Memory, free_ports());
    let cluster = Cluster::start(&Start { program: program(), directory, store, nodes: 3, port, flags: &[&flag] });
    let kubectl = cluster.kubectl();
    let nodes = kubectl.ok("get nodes -o jsonpath={.items[*].metadata.name}");
    let nodes: Vec<&str> = nodes.split(' ').collect();

    create(&kubectl, "refused");
    wait_for_event(&kubectl, "refused", "0/3 nodes are available: 3 node(s) had no ssd.");
    kubectl.ok(&format!("label node {} disk=ssd", nodes[1]));
    wait_for_node(&kubectl, "refused", nodes[1]);
    kubectl.ok(&format!("label node {} disk=ssd quiet=very", nodes[2]));
    wait::until("the scheduler sees the labels", || {
        kubectl.ok("delete pod scored --ignore-not-found --now");
        create(&kubectl, "scored");
        let mut node = String::new();
        wait::until("the pod has a node", || {
            node = kubectl.ok("get pod scored -o jsonpath={.spec.nodeName}");
            !node.is_empty()
        });
        node == nodes[2]
    });

    drop(policy);
    create(&kubectl, "alone");
    wait_for_event(&kubectl, "alone", "connect: connection refused");
    cluster.stop();
}
