//! Only the API server touches the store, and nobody uses another's keys: over the whole life of a run, from its start
//! to its stop, every file that is opened and every connection that is made is looked at.

use crate::{etcd, program};
use e2e::processes::{Cluster, Start, free_ports};
use e2e::store::Store;
use e2e::strace::{Deed, Trace, deeds};
use std::path::Path;
use std::process::Command;

const CALLS: &str = "execve,clone,clone3,fork,vfork,open,openat,connect";
const COMPONENTS: [&str; 5] = ["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];

#[test]
fn the_embedded_store_is_the_apiservers_alone() {
    let directory = tempfile::tempdir().unwrap();
    let Some(trace) = life(directory.path(), Store::Embedded) else { return };
    let data = directory.path().canonicalize().unwrap().join("data");
    let deeds = deeds(&trace.text());
    let opened = |command: &str, path: &Path| {
        deeds
            .iter()
            .any(|(by, deed)| by == command && matches!(deed, Deed::Open(it) if Path::new(it).starts_with(path)))
    };
    assert!(opened("apiserver", &data.join("store")), "the trace shows the API server's store");
    for component in COMPONENTS {
        assert!(opened(component, &data.join("pki").join(component)), "the trace shows {component}'s keys");
    }
    assert_eq!(trespasses(&deeds, &data, &[]), Vec::<String>::new());
}

#[test]
fn etcd_is_the_apiservers_alone() {
    let directory = tempfile::tempdir().unwrap();
    let etcd = etcd(directory.path());
    let Some(trace) = life(directory.path(), Store::Etcd(&etcd)) else { return };
    let ports = etcd.urls().iter().map(|url| url.rsplit(':').next().unwrap().parse().unwrap()).collect::<Vec<u16>>();
    let deeds = deeds(&trace.text());
    assert!(deeds.contains(&("apiserver".to_owned(), Deed::Connect(ports[0]))), "the trace shows the connection");
    let data = directory.path().canonicalize().unwrap().join("data");
    assert_eq!(trespasses(&deeds, &data, &ports), Vec::<String>::new());
}

#[test]
fn a_component_that_cheats_is_found_out() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().canonicalize().unwrap().join("data");
    for folder in ["store", "pki/apiserver"] {
        std::fs::create_dir_all(data.join(folder)).unwrap();
        std::fs::write(data.join(folder).join("file"), "").unwrap();
    }
    // As a component that opens what is not its own, in a child of its own, and connects where it has no business.
    let cheat =
        format!(": < {0}/store/file; (: < {0}/pki/apiserver/file); : < /dev/tcp/127.0.0.1/2379", data.display());
    let shell = Path::new("/bin/bash");
    let trace = match Trace::prepare(directory.path(), shell, "", CALLS) {
        Ok(trace) => trace,
        Err(why) => return eprintln!("SKIPPED what a cheating component does: {why}"),
    };
    let script = directory.path().join("scheduler");
    std::fs::write(&script, cheat).unwrap();
    let _ = Command::new(&trace.program).current_dir(directory.path()).arg("scheduler").output().unwrap();
    let found = trespasses(&deeds(&trace.text()), &data, &[2379]);
    let store = format!("scheduler opened {}/store/file", data.display());
    let keys = format!("scheduler opened {}/pki/apiserver/file", data.display());
    assert_eq!(found, [store, keys, "scheduler connected to etcd at port 2379".to_owned()]);
}

/// Starts a traced cluster, uses it, and stops it; None, and said so, where nothing can be traced.
fn life(directory: &Path, store: Store<'_>) -> Option<Trace> {
    let trace = match Trace::prepare(directory, program(), "--seccomp-bpf", CALLS) {
        Ok(trace) => trace,
        Err(why) => {
            eprintln!("SKIPPED the trace of a whole cluster: {why}");
            return None;
        }
    };
    let cluster = Cluster::start(&Start { program: &trace.program, directory, store, nodes: 3, port: free_ports() });
    let kubectl = cluster.kubectl();
    kubectl.ok("create deployment web --image=nginx --replicas=3");
    kubectl.ok("rollout status deployment/web --timeout=120s");
    cluster.stop();
    Some(trace)
}

/// What components did with the store, with others' keys, and with etcd. `up` itself issues the keys.
fn trespasses(deeds: &[(String, Deed)], data: &Path, etcd: &[u16]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (command, deed) in deeds.iter().filter(|(command, _)| command != "up") {
        let is_apiserver = command == "apiserver";
        let trespass = match deed {
            Deed::Open(path) => {
                let path = Path::new(path);
                let foreign_store = path.starts_with(data.join("store")) && !is_apiserver;
                let foreign_keys =
                    path.starts_with(data.join("pki")) && !path.starts_with(data.join("pki").join(command));
                (foreign_store || foreign_keys).then(|| format!("{command} opened {}", path.display()))
            }
            Deed::Connect(port) => {
                (etcd.contains(port) && !is_apiserver).then(|| format!("{command} connected to etcd at port {port}"))
            }
        };
        found.extend(trespass);
    }
    found
}
