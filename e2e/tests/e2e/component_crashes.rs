//! Tests that the state of a cluster survives a clean stop, a kill of `up`, and a kill of each component during a
//! rollout.

use crate::{cluster, etcd, program};
use component_base::env::Env;
use e2e::processes::{Cluster, Start, free_ports, signal};
use e2e::store::Store;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Rolls out an image, and waits until the rollout is complete.
fn roll_out(cluster: &Cluster, image: &str) {
    let kubectl = cluster.kubectl();
    kubectl.ok(&format!("set image deployment/web nginx={image}"));
    kubectl.ok("rollout status deployment/web --timeout=120s");
    assert_eq!(kubectl.ok("get deployment web -o jsonpath={.status.updatedReplicas}"), "3");
}

#[test]
fn the_state_survives_a_clean_stop() {
    let directory = tempfile::tempdir().unwrap();
    let first = cluster(directory.path(), Store::Embedded);
    first.kubectl().ok("create deployment web --image=nginx --replicas=3");
    first.kubectl().ok("rollout status deployment/web --timeout=90s");
    let uid = first.kubectl().ok("get deployment web -o jsonpath={.metadata.uid}");
    let logs = first.data_dir.join("logs");
    first.stop();
    for component in ["controller-manager", "scheduler"] {
        // A lease that is not released makes the next leader wait until it expires.
        let log = std::fs::read_to_string(logs.join(format!("{component}.log"))).unwrap();
        assert!(!log.contains("not released"), "{log}");
    }
    let second = cluster(directory.path(), Store::Embedded);
    assert_eq!(second.kubectl().ok("get deployment web -o jsonpath={.metadata.uid}"), uid);
    roll_out(&second, "nginx:2");
    second.stop();
}

const COMPONENTS: [&str; 5] = ["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];

#[test]
fn a_rollout_completes_after_each_component_was_killed_on_the_embedded_store() {
    rolls_out_after_kills(Store::Embedded, &COMPONENTS);
}

#[test]
fn a_rollout_completes_after_each_component_was_killed_on_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    rolls_out_after_kills(Store::Etcd(&etcd), &COMPONENTS);
}

/// Seed from which the moments of the kills are drawn.
const SEED: u64 = 3;
const REPLICAS: usize = 3;
/// Least number of pod changes of a rollout.
const ROLLOUT_CHANGES: usize = 9;

/// Begins a rollout, and calls `act` after a number of pod changes.
fn during_a_rollout(cluster: &Cluster, image: &str, changes: usize, act: impl FnOnce()) {
    let kubectl = cluster.kubectl();
    let mut watch = kubectl.command(&["get", "pods", "--watch", "-o", "name"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().expect("kubectl starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("it is a pipe")).lines();
    assert_eq!(lines.by_ref().take(REPLICAS).count(), REPLICAS, "first come those that are there");
    kubectl.ok(&format!("set image deployment/web nginx={image}"));
    assert_eq!(lines.take(changes).filter(Result::is_ok).count(), changes, "the pods change");
    act();
    let _ = watch.kill();
    let _ = watch.wait();
}

fn rolls_out_after_kills(store: Store<'_>, names: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), store);
    cluster.kubectl().ok("create deployment web --image=nginx --replicas=3");
    cluster.kubectl().ok("rollout status deployment/web --timeout=90s");
    let random = Env::simulated(SEED).random("moments");
    for (round, name) in names.iter().enumerate() {
        let before = cluster.component(name).expect("every component runs");
        let moment = 1 + random.below(ROLLOUT_CHANGES);
        during_a_rollout(&cluster, &format!("nginx:new-{round}"), moment, || signal("KILL", before));
        e2e::wait::until("the component runs again", || cluster.component(name).is_some_and(|now| now != before));
        e2e::wait::until("the API server answers", || cluster.kubectl().run("get --raw /readyz").success);
        cluster.kubectl().ok("rollout status deployment/web --timeout=120s");
    }
    roll_out(&cluster, "nginx:last");
    let ip = cluster.kubectl().ok("get pods -l app=web -o jsonpath={.items[0].status.podIP}");
    assert!(ip.starts_with("10.244."), "{ip}");
    cluster.stop();
}

#[test]
fn components_end_with_a_killed_parent() {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = cluster(directory.path(), Store::Embedded);
    assert_eq!(cluster.survivors().len(), 5);
    signal("KILL", cluster.id());
    cluster.wait();
    e2e::wait::until("all components have ended", || cluster.survivors().is_empty());
    // The lock of the data directory is free again.
    let again = Cluster::start(&Start {
        program: program(),
        directory: directory.path(),
        store: Store::Embedded,
        nodes: 3,
        port: free_ports(),
        flags: &[],
    });
    again.kubectl().ok("get nodes");
    again.stop();
}
