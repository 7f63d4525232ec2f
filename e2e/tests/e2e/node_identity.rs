//! Tests that a node writes only its own objects, although one process with one certificate acts for several nodes.

use crate::single_nodes::SingleNodes;
use client::{Client, DeleteOptions, Patch, PatchOptions};
use e2e::kubectl::Kubectl;
use e2e::wait;
use proto::Gvr;
use serde_json::{Value, json};
use simulator::{Simulation, scenario};
use std::collections::BTreeSet;

fn merge(value: Value) -> Patch {
    Patch::Merge(value)
}

/// Returns the name of a pod on a node.
async fn pod_on(admin: &Client, node: &str) -> String {
    let pods =
        admin.dynamic(&Gvr::new("", "v1", "pods"), "default").list(&client::ListOptions::default()).await.unwrap();
    let pod = pods.items.iter().find(|pod| pod["spec"]["nodeName"] == node).expect("six pods lie on both nodes");
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

#[test]
fn a_node_writes_only_its_own_objects() {
    Simulation::whole(5, 2, async |simulation| {
        scenario::roll_out(simulation, "web", 6).await;
        let admin = simulation.admin();
        let fleet = simulation.client("system:orrery:node-fleet");
        let node = fleet.impersonating("system:node:node-0", &["system:nodes"]);
        let (mine, theirs) = (pod_on(&admin, "node-0").await, pod_on(&admin, "node-1").await);
        let (core, leases) = (|r| Gvr::new("", "v1", r), Gvr::new("coordination.k8s.io", "v1", "leases"));
        let options = PatchOptions::default();
        let touched = merge(json!({"metadata": {"annotations": {"touched": "yes"}}}));
        let status = merge(json!({"status": {"message": "touched"}}));

        let nodes = node.dynamic(&core("nodes"), "");
        let pods = node.dynamic(&core("pods"), "default");
        let leases = node.dynamic(&leases, "kube-node-lease");
        for (what, answer, refusal) in [
            ("its node", nodes.patch("node-0", &touched, &options).await, ""),
            (
                "another node",
                nodes.patch("node-1", &touched, &options).await,
                r#"nodes "node-1" is forbidden: node "node-0" is not allowed to modify node "node-1""#,
            ),
            (
                "its taints",
                nodes
                    .patch(
                        "node-0",
                        &merge(json!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})),
                        &options,
                    )
                    .await,
                r#"nodes "node-0" is forbidden: node "node-0" is not allowed to modify taints"#,
            ),
            (
                "a label that is not a kubelet's",
                nodes
                    .patch("node-0", &merge(json!({"metadata": {"labels": {"kubernetes.io/role": "x"}}})), &options)
                    .await,
                r#"nodes "node-0" is forbidden: is not allowed to modify labels: kubernetes.io/role"#,
            ),
            ("the status of its pod", pods.patch_status(&mine, &status, &options).await, ""),
            (
                "the status of another's pod",
                pods.patch_status(&theirs, &status, &options).await,
                r#"node "node-0" can only update pod status for pods with spec.nodeName set to itself"#,
            ),
            ("its lease", leases.patch("node-0", &touched, &options).await, ""),
            (
                "another's lease",
                leases.patch("node-1", &touched, &options).await,
                r#"User "system:node:node-0" cannot patch resource "leases" in API group "coordination.k8s.io" in the namespace "kube-node-lease": can only access node lease with the same name as the requesting node"#,
            ),
        ] {
            match answer {
                Ok(_) => assert_eq!(refusal, "", "{what} was written"),
                Err(error) => {
                    assert!(!refusal.is_empty() && error.is_forbidden(), "{what}: {error}");
                    assert!(error.to_string().ends_with(refusal), "{what}: {error}");
                }
            }
        }
        let error = pods.delete(&theirs, &DeleteOptions::default()).await.unwrap_err().to_string();
        assert!(error.ends_with(r#"node "node-0" can only delete pods with spec.nodeName set to itself"#), "{error}");
        // The process must not write under its own identity.
        let error = fleet.dynamic(&core("nodes"), "").patch("node-0", &touched, &options).await.unwrap_err();
        assert!(error.is_forbidden(), "{error}");
    });
}

#[test]
fn each_component_writes_as_its_own_user() {
    Simulation::whole(6, 2, async |simulation| {
        scenario::roll_out(simulation, "web", 4).await;
        let log = simulation.log();
        let writers: BTreeSet<&str> = log.iter().filter_map(|line| writer(line)).collect();
        let expected = [
            "kubernetes-admin",
            // It writes its Lease, the tokens of the controllers' accounts, and the Event about the new leader.
            "system:kube-controller-manager",
            "system:kube-scheduler",
            "system:orrery:node-fleet as system:node:node-0",
            "system:orrery:node-fleet as system:node:node-1",
            "system:serviceaccount:kube-system:clusterrole-aggregation-controller",
            "system:serviceaccount:kube-system:deployment-controller",
            "system:serviceaccount:kube-system:endpoint-controller",
            "system:serviceaccount:kube-system:endpointslice-controller",
            "system:serviceaccount:kube-system:node-controller",
            "system:serviceaccount:kube-system:replicaset-controller",
            "system:serviceaccount:kube-system:root-ca-cert-publisher",
            "system:serviceaccount:kube-system:service-account-controller",
            "system:serviceaccount:kube-system:service-cidrs-controller",
            "system:serviceaccount:kube-system:ttl-controller",
        ];
        assert_eq!(writers, expected.into());
    });
}

/// Returns the user of a mutating request in a line of the log, which has time, user, verb, path, code, revision and
/// hash.
fn writer(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once(' ')?;
    let (user, _) =
        ["create", "update", "patch", "delete"].iter().find_map(|verb| rest.split_once(&format!(" {verb} /")))?;
    Some(user)
}

/// Checks that the files of one node's process give access to that node only.
#[tokio::test]
async fn the_files_of_one_node_give_no_access_to_another() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = SingleNodes::issue(directory.path()).await;
    let _processes = [nodes.start(0), nodes.start(1)];
    let admin = nodes.admin();
    admin.ok("create serviceaccount default");
    for (pod, node) in [("mine", "node-0"), ("theirs", "node-1")] {
        wait::until("the node is there", || admin.run(&format!("get node {node}")).success);
        nodes.bind(pod, node, &["--image=nginx"]);
        admin.ok(&format!("wait --for=jsonpath={{.status.phase}}=Running pod/{pod} --timeout=60s"));
    }

    let thief = Kubectl::new(&nodes.kubeconfig("node-0"), directory.path());
    thief.ok("get node node-0");
    thief.ok("get pod mine");
    thief.ok("annotate node node-0 touched=yes");
    // What tells simulated nodes how to behave, and nothing else there.
    for name in ["orrery-behaviour", "orrery-fleet"] {
        thief.ok(&format!("get configmaps --namespace=kube-system --field-selector=metadata.name={name}"));
    }
    for line in [
        "get nodes",
        "get node node-1",
        "get pods --all-namespaces",
        "get pod theirs",
        "delete pod theirs",
        "annotate node node-1 touched=yes",
        "get lease node-1 --namespace=kube-node-lease",
        "get configmaps --namespace=kube-system",
        "get configmaps --namespace=kube-system --field-selector=metadata.name=extension-apiserver-authentication",
        "get configmaps --field-selector=metadata.name=orrery-fleet",
        "create configmap orrery-fleet --namespace=kube-system",
        "get node node-1 --as=system:node:node-1 --as-group=system:nodes",
        "get nodes --as=system:orrery:node-fleet",
    ] {
        let refused = thief.fails(line);
        assert!(refused.to_lowercase().contains("forbidden"), "{line}: {refused}");
    }
}
