//! Tests that only the API server accesses the store, and that no component uses another's keys. `strace` and `/proc`
//! record the opened files and the connections of a whole run.

use crate::{etcd, program};
use component_base_testing::test_needs;
use e2e::proc_fs::{Accesses, ProcPoller, poll};
use e2e::processes::{Cluster, Start, free_ports};
use e2e::store::Store;
use e2e::strace::{Access, Trace, accesses};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CALLS: &str = "execve,clone,clone3,fork,vfork,open,openat,connect";
const NO_PROC: &str = "reads /proc, which this system does not have";
const COMPONENTS: [&str; 5] = ["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];

#[test]
fn only_the_apiserver_opens_the_embedded_store() {
    let directory = tempfile::tempdir().unwrap();
    let records = record(directory.path(), Store::Embedded);
    let data = directory.path().canonicalize().unwrap().join("data");
    let store = data.join("store");
    if let Some(traced) = records.traced {
        assert!(opened(&traced, "apiserver", &store), "the trace shows the API server's store");
        for component in COMPONENTS {
            assert!(
                opened(&traced, component, &data.join("pki").join(component)),
                "the trace shows {component}'s keys"
            );
        }
        assert_eq!(violations(&traced, &data, &[]), Vec::<String>::new());
    }
    if let Some(polled) = records.polled {
        assert!(opened(&polled, "apiserver", &store), "the API server was seen with its store");
        for component in &COMPONENTS[1..] {
            let connection = ((*component).to_owned(), Access::Connect(records.port));
            assert!(polled.contains(&connection), "{component} was seen at the API server");
        }
        assert_eq!(violations(&polled, &data, &[]), Vec::<String>::new());
    }
}

#[test]
fn only_the_apiserver_connects_to_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let Some(etcd) = etcd(directory.path()) else { return };
    let records = record(directory.path(), Store::Etcd(&etcd));
    let ports = etcd.urls().iter().map(|url| url.rsplit(':').next().unwrap().parse().unwrap()).collect::<Vec<u16>>();
    let data = directory.path().canonicalize().unwrap().join("data");
    for accesses in [records.traced, records.polled].into_iter().flatten() {
        assert!(accesses.contains(&("apiserver".to_owned(), Access::Connect(ports[0]))), "the connection was seen");
        assert_eq!(violations(&accesses, &data, &ports), Vec::<String>::new());
    }
}

fn opened(accesses: &Accesses, command: &str, path: &Path) -> bool {
    let is_there = |access: &Access| matches!(access, Access::Open(it) if Path::new(it).starts_with(path));
    accesses.iter().any(|(by, access)| by == command && is_there(access))
}

#[test]
fn a_trace_shows_accesses_to_the_store_keys_and_etcd() {
    let directory = tempfile::tempdir().unwrap();
    let data = others_files(directory.path());
    // The shell acts like a component whose child opens another component's file and connects to etcd's port.
    let cheat =
        format!(": < {0}/store/file; (: < {0}/pki/apiserver/file); : < /dev/tcp/127.0.0.1/2379", data.display());
    let shell = Path::new("/bin/bash");
    let trace = match Trace::prepare(directory.path(), shell, "", CALLS) {
        Ok(trace) => trace,
        Err(why) => return test_needs::skip(&why),
    };
    std::fs::write(directory.path().join("scheduler"), cheat).unwrap();
    let _ = Command::new(&trace.program).current_dir(directory.path()).arg("scheduler").output().unwrap();
    let accesses: Accesses = accesses(&trace.text()).into_iter().collect();
    assert_eq!(violations(&accesses, &data, &[2379]), all_violations(&data, 2379));
}

#[test]
fn polls_show_open_accesses_to_the_store_keys_and_etcd() {
    let Some(poller) = ProcPoller::start() else { return test_needs::skip(NO_PROC) };
    let directory = tempfile::tempdir().unwrap();
    let data = others_files(directory.path());
    let etcd = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = etcd.local_addr().unwrap().port();
    let cheat = format!(
        "exec 3< {0}/store/file 4< {0}/pki/apiserver/file 5<> /dev/tcp/127.0.0.1/{port}; echo open; read -r _",
        data.display()
    );
    std::fs::write(directory.path().join("scheduler"), cheat).unwrap();
    let mut command = Command::new("/bin/bash");
    command.current_dir(directory.path()).arg("scheduler").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(shell.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "open\n");
    assert_eq!(violations(&poller.stop(), &data, &[port]), all_violations(&data, port));
    drop(shell.stdin.take());
    shell.wait().unwrap();
}

/// Makes a data directory with a store and with keys of the API server. Returns its path.
fn others_files(directory: &Path) -> PathBuf {
    let data = directory.canonicalize().unwrap().join("data");
    for folder in ["store", "pki/apiserver"] {
        std::fs::create_dir_all(data.join(folder)).unwrap();
        std::fs::write(data.join(folder).join("file"), "").unwrap();
    }
    data
}

/// Returns the violations that a cheating component has to show: opened files by name, then connections.
fn all_violations(data: &Path, etcd: u16) -> [String; 3] {
    let keys = format!("scheduler opened {}/pki/apiserver/file", data.display());
    let store = format!("scheduler opened {}/store/file", data.display());
    [keys, store, format!("scheduler connected to etcd at port {etcd}")]
}

/// The recorded accesses of a whole run. They are `None` for a tool that is not available.
struct Records {
    traced: Option<Accesses>,
    polled: Option<Accesses>,
    /// Port of the API server.
    port: u16,
}

/// Starts a cluster under both tools, uses it, and stops it. If a tool is missing, records the test as skipped.
fn record(directory: &Path, store: Store<'_>) -> Records {
    let trace = Trace::prepare(directory, program(), "--seccomp-bpf", CALLS);
    let trace = trace.inspect_err(|why| test_needs::skip(why)).ok();
    let poller = ProcPoller::start();
    if poller.is_none() {
        test_needs::skip(NO_PROC);
    }
    let program = trace.as_ref().map_or(program(), |trace| &trace.program);
    let cluster = Cluster::start(&Start { program, directory, store, nodes: 3, port: free_ports(), flags: &[] });
    let port = cluster.port;
    let kubectl = cluster.kubectl();
    kubectl.ok("create deployment web --image=nginx --replicas=3");
    kubectl.ok("rollout status deployment/web --timeout=120s");
    // On a busy machine the poller may be late, so one more poll is made here, while the cluster surely runs.
    let alive = poller.as_ref().map_or_else(Accesses::new, |_| poll());
    cluster.stop();
    let traced = trace.map(|trace| accesses(&trace.text()).into_iter().collect());
    Records { traced, polled: poller.map(|poller| &poller.stop() | &alive), port }
}

/// Returns the components' accesses to the store, to others' keys, and to etcd. `up` itself issues the keys, and etcd
/// connects to itself.
fn violations(accesses: &Accesses, data: &Path, etcd: &[u16]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (command, access) in accesses.iter().filter(|(command, _)| !["up", "etcd"].contains(&command.as_str())) {
        let is_apiserver = command == "apiserver";
        let violation = match access {
            Access::Open(path) => {
                let path = Path::new(path);
                let foreign_store = path.starts_with(data.join("store")) && !is_apiserver;
                let foreign_keys =
                    path.starts_with(data.join("pki")) && !path.starts_with(data.join("pki").join(command));
                (foreign_store || foreign_keys).then(|| format!("{command} opened {}", path.display()))
            }
            Access::Connect(port) => {
                (etcd.contains(port) && !is_apiserver).then(|| format!("{command} connected to etcd at port {port}"))
            }
        };
        found.extend(violation);
    }
    found
}
