//! `Engine`: a Docker engine that belongs to a test and ends with it.
//!
//! It has its own socket and images, and does not touch those of the user's engine.

use crate::programs::{install, succeeds};
use crate::wait;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Script of a shell that runs the engine, and stops it cleanly when the pipe from its owner closes.
const SCRIPT: &str = r#"exec 3<&0; (read -r _ <&3; kill -TERM $$) 2>/dev/null >&2 & exec "$@" 3<&- </dev/null"#;

/// The programs that an engine needs, with their Debian packages.
const PROGRAMS: [(&str, &str); 3] =
    [("dockerd", "docker.io"), ("docker", "docker.io"), ("docker-compose", "docker-compose")];

/// A running `dockerd`.
#[derive(Debug)]
pub struct Engine {
    daemon: Child,
    socket: PathBuf,
    /// Temporary folder of the socket and of process state. It is not in `data`, since a socket's path must be short.
    _runtime: tempfile::TempDir,
}

impl Engine {
    /// Starts an engine whose images stay in `data` between runs, or returns the reason why it cannot start.
    pub fn start(data: &Path) -> Result<Self, String> {
        if !cfg!(target_os = "linux") {
            return Err("containers run on Linux alone".to_owned());
        }
        if !succeeds(Command::new("test").args(["-w", "/proc/sys/net/ipv4/ip_forward"])) {
            return Err("only root may start a Docker engine".to_owned());
        }
        for (program, package) in PROGRAMS {
            install(program, package)?;
        }
        let runtime = tempfile::Builder::new().prefix("orrery-docker").tempdir().map_err(|error| error.to_string())?;
        std::fs::create_dir_all(data).map_err(|error| format!("{}: {error}", data.display()))?;
        let socket = runtime.path().join("docker.sock");
        let log_path = data.join("dockerd.log");
        let log = File::create(&log_path).map_err(|error| format!("{}: {error}", log_path.display()))?;
        let daemon = Command::new("sh")
            .args(["-c", SCRIPT, "sh", "dockerd"])
            .arg(format!("--data-root={}", data.join("engine").display()))
            .arg(format!("--exec-root={}", runtime.path().join("exec").display()))
            .arg(format!("--pidfile={}", runtime.path().join("pid").display()))
            .arg(format!("--host=unix://{}", socket.display()))
            // Each container gets a processor share beside all other processes.
            .args(["--exec-opt=native.cgroupdriver=cgroupfs", "--cgroup-parent=/"])
            .stdin(Stdio::piped())
            .stdout(log.try_clone().map_err(|error| error.to_string())?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("dockerd: {error}"))?;
        let mut engine = Self { daemon, socket, _runtime: runtime };
        let mut ended = false;
        wait::until("the Docker engine answers, or ends", || {
            ended = engine.daemon.try_wait().is_ok_and(|status| status.is_some());
            ended || succeeds(engine.docker().arg("version"))
        });
        if ended {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            return Err(format!("dockerd ended: {}", log.lines().last().unwrap_or("it said nothing")));
        }
        Ok(engine)
    }

    /// Returns a `docker` command for this engine.
    pub fn docker(&self) -> Command {
        self.client("docker")
    }

    /// Returns a `docker-compose` command for this engine.
    pub fn compose(&self) -> Command {
        self.client("docker-compose")
    }

    fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("DOCKER_HOST", format!("unix://{}", self.socket.display()))
            // Uses the classic builder, since the newer one is a plug-in that may be missing.
            .env("DOCKER_BUILDKIT", "0")
            .env("COMPOSE_DOCKER_CLI_BUILD", "0")
            .env_remove("DOCKER_CONTEXT")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        drop(self.daemon.stdin.take());
        let _ = self.daemon.wait();
    }
}
