//! `Cluster`: runs `orrery up` in its own directory and on its own ports.

use crate::kubectl::Kubectl;
use crate::store::Store;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};

/// Number of ports of a cluster.
const PORTS: u16 = 7;
/// Line that `up` prints once the cluster is ready.
const READY: &str = "The cluster is ready";

/// A running `orrery up`.
#[derive(Debug)]
pub struct Cluster {
    program: PathBuf,
    child: Child,
    pub port: u16,
    pub data_dir: PathBuf,
    home: PathBuf,
    /// Output of `up` until the cluster was ready.
    pub greeting: String,
    rest: Option<BufReader<File>>,
}

/// Options with which a cluster starts.
#[derive(Clone, Debug)]
pub struct Start<'a> {
    pub program: &'a Path,
    pub directory: &'a Path,
    pub store: Store<'a>,
    /// Counts only without templates of nodes among the flags.
    pub nodes: u32,
    pub port: u16,
    /// Further flags of `up`.
    pub flags: &'a [&'a str],
}

impl Start<'_> {
    /// Returns the command, for tests of failing starts.
    pub fn command(&self) -> Command {
        let mut command = Command::new(self.program);
        let has_templates = self.flags.iter().any(|flag| flag.starts_with("--node-template"));
        let nodes = (!has_templates).then(|| format!("--nodes={}", self.nodes));
        command
            .arg("up")
            .arg(format!("--store={}", self.store.kind()))
            .args(nodes)
            .arg(format!("--port={}", self.port))
            .arg(format!("--data-dir={}", self.directory.join("data").display()))
            .args(self.flags)
            .stdin(Stdio::null());
        let endpoints = self.store.etcd_endpoints();
        if !endpoints.is_empty() {
            command.arg(format!("--etcd-endpoints={}", endpoints.join(",")));
        }
        command
    }
}

/// Range of ports below those of outgoing connections, one of which could take a port that was just free.
const LOWEST_PORT: u16 = 15_000;
const HIGHEST_PORT: u16 = 32_000;
/// Number of ranges that this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// Returns the first port of a free range that no other test of this process gets. The ports are not held.
pub fn free_ports() -> u16 {
    let ranges = (HIGHEST_PORT - LOWEST_PORT) / PORTS;
    // Parallel test programs begin at different ranges.
    let begin = u16::try_from(std::process::id() * 101 % u32::from(ranges)).expect("it is less than a u16");
    for _ in 0..ranges {
        let range = (begin + TRIED.fetch_add(1, Ordering::Relaxed) % ranges) % ranges;
        let base = LOWEST_PORT + range * PORTS;
        if (base..base + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return base;
        }
    }
    panic!("no {PORTS} free ports in a row on loopback");
}

impl Cluster {
    /// Starts a cluster and waits until it is ready. Panics with its output if it ends before.
    pub fn start(start: &Start<'_>) -> Self {
        let (reader, writer) = std::io::pipe().expect("pipes are to be had");
        let mut command = start.command();
        command.stdout(writer.try_clone().expect("a pipe end can be shared")).stderr(writer);
        let child = command.spawn().expect("the program starts");
        drop(command); // it holds the pipe's writing end, which must close before the output ends
        let mut lines = BufReader::new(File::from(std::os::fd::OwnedFd::from(reader)));
        let mut greeting = String::new();
        loop {
            let mut line = String::new();
            let count = lines.read_line(&mut line).expect("output is text");
            assert!(count > 0, "`orrery up` ended before it was ready:\n{greeting}");
            greeting.push_str(&line);
            if line.contains(READY) {
                break;
            }
        }
        let home = start.directory.join("home");
        std::fs::create_dir_all(&home).expect("the directory is ours");
        Self {
            program: start.program.to_owned(),
            child,
            port: start.port,
            data_dir: start.directory.join("data"),
            home,
            greeting,
            rest: Some(lines),
        }
    }

    /// Returns a kubectl of the administrator.
    pub fn kubectl(&self) -> Kubectl {
        Kubectl::new(&self.data_dir.join("kubeconfig"), &self.home)
    }

    /// Returns a kubectl with the certificate of a component.
    pub fn kubectl_of(&self, component: &str) -> Kubectl {
        Kubectl::new(&self.data_dir.join("pki").join(component).join("kubeconfig"), &self.home)
    }

    /// Waits until `orrery proxy-sim rules` prints rules for a node that `wanted` accepts, and returns them.
    pub fn rules(&self, node: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut rules = String::new();
        crate::wait::until("the node has the wanted rules", || {
            let output = Command::new(&self.program)
                .args(["proxy-sim", "rules", "--node", node])
                .env("KUBECONFIG", self.data_dir.join("kubeconfig"))
                .output()
                .expect("the program starts");
            rules = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success() && wanted(&rules)
        });
        rules
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the process ID of a component, which it finds by the command line.
    pub fn component(&self, name: &str) -> Option<u32> {
        let mut found = None;
        for entry in std::fs::read_dir("/proc").ok()?.flatten() {
            let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else { continue };
            let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words: Vec<&str> = line.split(|b| *b == 0).filter_map(|w| std::str::from_utf8(w).ok()).collect();
            let port = |word: &&str| word.starts_with("--secure-port=");
            let ours = |word: &str| word.contains(&*self.data_dir.to_string_lossy());
            if words.get(1) == Some(&name) && words.iter().any(|w| ours(w)) && words.iter().any(port) {
                found = Some(id);
            }
        }
        found
    }

    /// Returns the names of the components whose processes still run. `up` itself is not one of them.
    pub fn survivors(&self) -> Vec<&'static str> {
        let names = ["apiserver", "controller-manager", "scheduler", "kubelet-sim", "proxy-sim"];
        names.into_iter().filter(|name| self.component(name).is_some()).collect()
    }

    /// Sends SIGINT, like Ctrl-C.
    pub fn interrupt(&self) {
        signal("INT", self.child.id());
    }

    /// Waits for `up` to end; returns its exit status and the rest of its output.
    pub fn wait(&mut self) -> (ExitStatus, String) {
        let mut rest = String::new();
        if let Some(mut lines) = self.rest.take() {
            let _ = lines.read_to_string(&mut rest);
        }
        (self.child.wait().expect("a started process can be waited for"), rest)
    }

    /// Stops the cluster cleanly, and returns the rest of its output.
    pub fn stop(mut self) -> String {
        self.interrupt();
        let (status, rest) = self.wait();
        assert!(status.success(), "a clean stop ends with 0, not {status}:\n{rest}");
        rest
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Cleans up after a failed test: the components end with their parent.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process with the system's `kill`. `name` is `TERM`, for instance.
pub fn signal(name: &str, process: u32) {
    let status = Command::new("kill").arg(format!("-{name}")).arg(process.to_string()).status();
    assert!(status.is_ok_and(|s| s.success()), "process {process} could not be sent {name}");
}
