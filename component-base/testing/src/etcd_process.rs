//! `EtcdProcess`: a real etcd for tests and measurements, with one or more members on loopback. It ends with its owner.
//!
//! The program is the `etcd` in PATH (Debian: `etcd-server`) or `$ETCD`; without one, starting panics. Tests that need a
//! release with reliable progress notifications start `$ETCD_NEWER`, which `.ci/newer-etcd` fetches.

use component_base::env::Env;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Log line of a member that answers clients.
const READY: &str = "ready to serve client requests";

/// Time that a member gets to become ready.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Attempts to start: ports are probed and released, so another process may take one.
const ATTEMPTS: usize = 5;

/// A shell that becomes etcd. Beside it a second shell kills it when the pipe from its owner closes.
const SCRIPT: &str = r#"exec 3<&0; (read -r _ <&3; kill -9 $$) 2>/dev/null >&2 & exec "$@" 3<&- </dev/null"#;

/// Options of a cluster.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    pub members: usize,
    /// `--quota-backend-bytes`; 0 for etcd's default.
    pub quota_bytes: u64,
    /// Files of authority, certificate and key, for TLS with client certificates.
    pub tls: Option<[PathBuf; 3]>,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self { members: 1, quota_bytes: 0, tls: None }
    }
}

/// A running cluster. Dropping it kills the members; their data stays in the directory.
#[derive(Debug)]
pub struct EtcdProcess {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    program: String,
    url: String,
    data_dir: PathBuf,
    arguments: Vec<String>,
    /// `None` if the member was killed.
    child: Option<Child>,
}

impl EtcdProcess {
    /// Starts a new cluster in a directory and waits until it answers.
    pub fn start(directory: &Path, options: &EtcdOptions) -> Self {
        Self::start_program(&std::env::var("ETCD").unwrap_or_else(|_| "etcd".to_owned()), directory, options)
    }

    /// Starts a new cluster of another etcd program.
    pub fn start_program(program: &str, directory: &Path, options: &EtcdOptions) -> Self {
        for _ in 0..ATTEMPTS {
            let mut members = describe(program, directory, options);
            let children: Vec<_> = members.iter().map(Member::spawn).collect();
            let ready: Vec<_> = children.into_iter().map(Starting::wait).collect();
            let lost = ready.iter().find_map(|outcome| outcome.as_ref().err().cloned());
            for (member, outcome) in members.iter_mut().zip(ready) {
                member.child = outcome.ok();
            }
            let started = Self { members };
            match lost {
                None => return started,
                Some(log) if log.contains("address already in use") => {
                    drop(started);
                    fs::remove_dir_all(directory.join("etcd")).expect("the directory is ours");
                }
                Some(log) => panic!("etcd ended before it was ready:\n{log}"),
            }
        }
        panic!("no free ports for etcd after {ATTEMPTS} attempts");
    }

    /// Returns the client URLs.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(|member| member.url.clone()).collect()
    }

    pub fn data_dir(&self, member: usize) -> &Path {
        &self.members[member].data_dir
    }

    pub fn id(&self, member: usize) -> u32 {
        self.members[member].child.as_ref().expect("the member runs").id()
    }

    /// Kills a member, like a power cut.
    pub fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Restarts a killed member, and waits until it answers.
    pub fn restart(&mut self, member: usize) {
        let member = &mut self.members[member];
        assert!(member.child.is_none(), "only what was killed can be started again");
        match member.spawn().wait() {
            Ok(child) => member.child = Some(child),
            Err(log) => panic!("etcd ended before it was ready again:\n{log}"),
        }
    }
}

impl Member {
    fn spawn(&self) -> Starting {
        let child = Command::new("sh")
            .args(["-c", SCRIPT, "sh", &self.program])
            .args(&self.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.expect("there is a shell");
        let errors = child.stderr.take().expect("it is a pipe");
        let log_path = self.data_dir.with_extension("log");
        let (ready, answer) = mpsc::sync_channel(1);
        // The pipe has to be read as long as etcd runs, or etcd blocks.
        let read = move || {
            let mut log = File::options().create(true).append(true).open(&log_path).expect("the directory is ours");
            let mut said = String::new();
            for line in BufReader::new(errors).lines().map_while(Result::ok) {
                let _ = writeln!(log, "{line}");
                if line.contains(READY) {
                    let _ = ready.try_send(Ok(()));
                }
                said.push_str(&line);
                said.push('\n');
            }
            let _ = ready.try_send(Err(said));
        };
        Env::system().thread("etcd-log", read).expect("threads are to be had");
        Starting { child, answer }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Closing the pipe kills it.
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

struct Starting {
    child: Child,
    answer: mpsc::Receiver<Result<(), String>>,
}

impl Starting {
    /// Waits for the process to answer; if it ends before, returns its log.
    fn wait(mut self) -> Result<Child, String> {
        let problem = match self.answer.recv_timeout(READY_LIMIT) {
            Ok(Ok(())) => return Ok(self.child),
            Ok(Err(said)) if said.contains("not found") => {
                "etcd is not installed: apt-get install etcd-server, or name the program in $ETCD".to_owned()
            }
            Ok(Err(said)) => said,
            Err(_) => format!("it was not ready within {} s", READY_LIMIT.as_secs()),
        };
        drop(self.child.stdin.take());
        let _ = self.child.wait();
        Err(problem)
    }
}

/// Chooses names, ports and command lines of new members.
fn describe(program: &str, directory: &Path, options: &EtcdOptions) -> Vec<Member> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let ports = free_ports(options.members * 2);
    let peer = |index: usize| format!("http://127.0.0.1:{}", ports[options.members + index]);
    let all: Vec<_> = (0..options.members).map(|index| format!("m{index}={}", peer(index))).collect();
    // One member needs no votes; several need longer times on a busy machine.
    let (heartbeat, election) = if options.members == 1 { (10, 50) } else { (50, 500) };
    let member = |index: usize| {
        let url = format!("{scheme}://127.0.0.1:{}", ports[index]);
        let data_dir = directory.join("etcd").join(format!("m{index}"));
        fs::create_dir_all(data_dir.parent().expect("it has one")).expect("the directory is ours");
        let mut arguments = vec![
            format!("--name=m{index}"),
            format!("--data-dir={}", data_dir.display()),
            format!("--listen-client-urls={url}"),
            format!("--advertise-client-urls={url}"),
            format!("--listen-peer-urls={}", peer(index)),
            format!("--initial-advertise-peer-urls={}", peer(index)),
            format!("--initial-cluster={}", all.join(",")),
            format!("--initial-cluster-token={}", directory.display()),
            format!("--heartbeat-interval={heartbeat}"),
            format!("--election-timeout={election}"),
            format!("--quota-backend-bytes={}", options.quota_bytes),
        ];
        if let Some([ca, cert, key]) = &options.tls {
            arguments.push("--client-cert-auth".to_owned());
            let files = [("trusted-ca-file", ca), ("cert-file", cert), ("key-file", key)];
            arguments.extend(files.map(|(flag, path)| format!("--{flag}={}", path.display())));
        }
        Member { program: program.to_owned(), url, data_dir, arguments, child: None }
    };
    (0..options.members).map(member).collect()
}

fn free_ports(count: usize) -> Vec<u16> {
    let mut held = Vec::new();
    let mut ports = BTreeSet::new();
    while ports.len() < count {
        let probe = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        ports.insert(probe.local_addr().expect("a bound socket has an address").port());
        held.push(probe);
    }
    ports.into_iter().collect()
}
