//! Starting, and doing nothing: time to ready, and what an idle cluster holds and burns.

use super::measurement::Measurement;
use super::process::{self, Usage};
use super::servers::Servers;
use super::{Bench, Error};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long an idle cluster is watched.
const IDLE: Duration = Duration::from_secs(30);
/// Ports in a row that `up` takes.
const PORTS: u16 = 5;

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let servers = Servers::start(bench, "embedded").await?;
    let after = servers.usage()?;
    let what = "API server to ready, new store".to_owned();
    let alone = Measurement::new("start", what, "embedded", 1, servers.ready_after, (&Usage::new(), &after));
    drop(servers);
    let mut measured = vec![alone];
    measured.extend(cluster(bench).await?);
    Ok(measured)
}

/// `orrery up` with its three nodes: until it says that it is ready, and then half a minute of nothing.
async fn cluster(bench: &Bench) -> Result<[Measurement; 2], Error> {
    let directory = tempfile::tempdir().map_err(|error| Error::Io("temporary directory".to_owned(), error))?;
    let began = bench.env.now();
    let mut up = Up::start(bench, directory.path())?;
    up.wait_until_ready()?;
    let ready_after = bench.env.now().duration_since(began);
    let ready = up.usage()?;
    bench.env.sleep(IDLE).await;
    let idle = up.usage()?;
    let start = "whole cluster with 3 nodes to ready, new data directory".to_owned();
    let rest = format!("idle cluster of 3 nodes, per second over {} s", IDLE.as_secs());
    Ok([
        Measurement::new("start", start, "embedded", 1, ready_after, (&Usage::new(), &ready)),
        Measurement::new("start", rest, "embedded", IDLE.as_secs(), IDLE, (&ready, &idle)),
    ])
}

struct Up(Child);

impl Up {
    fn start(bench: &Bench, directory: &std::path::Path) -> Result<Self, Error> {
        let child = Command::new(&bench.program)
            .arg("up")
            .arg(format!("--port={}", free_ports()?))
            .arg(format!("--data-dir={}", directory.join("data").display()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        child.map(Self).map_err(|error| Error::Io(bench.program.display().to_string(), error))
    }

    fn wait_until_ready(&mut self) -> Result<(), Error> {
        let output = self.0.stdout.as_mut().expect("standard output is piped");
        for line in BufReader::new(output).lines() {
            if line.is_ok_and(|line| line.contains("The cluster is ready")) {
                return Ok(());
            }
        }
        Err(Error::Failed("`orrery up` ended before it was ready".to_owned()))
    }

    /// The launcher and its children, by the names of their sub-commands.
    fn usage(&self) -> Result<Usage, Error> {
        let launcher = self.0.id();
        let path = format!("/proc/{launcher}/task/{launcher}/children");
        let children = fs::read_to_string(&path).map_err(|error| Error::Io(path, error))?;
        let mut usage = Usage::from([("up".to_owned(), process::used(launcher)?)]);
        for pid in children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()) {
            let path = format!("/proc/{pid}/cmdline");
            let line = fs::read_to_string(&path).map_err(|error| Error::Io(path, error))?;
            let name = line.split('\0').find(|word| !word.starts_with('-') && !word.contains('/')).unwrap_or("?");
            usage.insert(name.to_owned(), process::used(pid)?);
        }
        Ok(usage)
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Its children end when the pipe that it holds for them closes.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_ports() -> Result<u16, Error> {
    for _ in 0..100 {
        let probe = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let base = probe.map_err(|error| Error::Io("loopback".to_owned(), error))?.port();
        let free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if base < u16::MAX - PORTS && (base..base + PORTS).all(free) {
            return Ok(base);
        }
    }
    Err(Error::Failed(format!("no {PORTS} free ports in a row on loopback")))
}
