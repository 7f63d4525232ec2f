//! `EtcdProcess`: a real etcd for tests and measurements: one member or several, on loopback, gone with its owner.
//!
//! The program is the `etcd` in PATH (Debian: `etcd-server`), or `$ETCD`; it panics without one. What needs a release whose
//! progress can be trusted starts `$ETCD_NEWER`, which `.ci/newer-etcd` fetches.

use component_base::env::Env;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// What a member says once it answers clients.
const READY: &str = "ready to serve client requests";

/// A member that is not ready by then will not be.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// Ports are probed and then let go, so somebody else may take one.
const ATTEMPTS: usize = 5;

/// Becomes etcd; beside it waits a shell that kills it when the pipe from its owner closes, however that ends.
const SCRIPT: &str = r#"exec 3<&0; (read -r _ <&3; kill -9 $$) 2>/dev/null >&2 & exec "$@" 3<&- </dev/null"#;

/// How a cluster is started.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    pub members: usize,
    /// `--quota-backend-bytes`; 0: etcd's own.
    pub quota_bytes: u64,
    /// Serve clients over TLS and want certificates from them: files of authority, certificate and key.
    pub tls: Option<[PathBuf; 3]>,
}

impl Default for EtcdOptions {
    fn default() -> Self {
        Self { members: 1, quota_bytes: 0, tls: None }
    }
}

/// Kills its members when it is dropped; their data stays in the directory.
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
    /// None: killed.
    child: Option<Child>,
}

impl EtcdProcess {
    /// Starts a new cluster in a directory and waits until it answers.
    pub fn start(directory: &Path, options: &EtcdOptions) -> Self {
        Self::start_program(&std::env::var("ETCD").unwrap_or_else(|_| "etcd".to_owned()), directory, options)
    }

    /// The same with another etcd.
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

    /// Client URLs.
    pub fn urls(&self) -> Vec<String> {
        self.members.iter().map(|member| member.url.clone()).collect()
    }

    pub fn data_dir(&self, member: usize) -> &Path {
        &self.members[member].data_dir
    }

    pub fn id(&self, member: usize) -> u32 {
        self.members[member].child.as_ref().expect("the member runs").id()
    }

    /// As a power cut does.
    pub fn kill(&mut self, member: usize) {
        self.members[member].kill();
    }

    /// Starts a member again that was killed, and waits until it answers.
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
        // Somebody has to read what etcd says for as long as it lives.
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
    /// The process once it answers, or all that it said.
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

/// Names, ports and command lines of new members.
fn describe(program: &str, directory: &Path, options: &EtcdOptions) -> Vec<Member> {
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let ports = free_ports(options.members * 2);
    let peer = |index: usize| format!("http://127.0.0.1:{}", ports[options.members + index]);
    let all: Vec<_> = (0..options.members).map(|index| format!("m{index}={}", peer(index))).collect();
    // A member alone needs nobody's vote; three have to be given the time that a busy machine takes.
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
