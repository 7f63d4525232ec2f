//! `orrery up`: a whole control plane, each component a process of its own, for as long as this one runs.
//!
//! The order of a start: take the data directory, issue what is missing, start the API server, wait until it is
//! ready, start everybody else, wait until the nodes are. A stop goes the other way round.

pub mod certificates;
pub mod components;
pub mod data_dir;
pub mod process;
pub mod progress;
pub mod ready;

use clap::Args;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use components::Component;
use data_dir::DataDir;
use process::Process;
use progress::Progress;
use std::fmt;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::ExitStatus;
use std::task::Poll;
use std::time::Duration;

/// A component that ends by itself is started again after this time, and after twice as long each time it ends soon.
const FIRST_RESTART: Duration = Duration::from_millis(200);
const LAST_RESTART: Duration = Duration::from_secs(30);
/// After so long without an end, the next one counts as the first.
const QUIET: Duration = Duration::from_secs(60);

/// Options of `orrery up`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Number of simulated nodes
    #[arg(long, default_value_t = 3)]
    pub nodes: u32,
    /// Where the cluster's state, certificates and logs are kept
    #[arg(long, default_value = "./orrery-data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Engine behind the API server: embedded survives a restart, memory does not
    #[arg(long, value_enum, default_value_t = StoreKind::Embedded)]
    pub store: StoreKind,
    /// Address that the components listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,
    /// Port of the API server; the other components use the four ports after it
    #[arg(long, default_value_t = 6443, value_parser = clap::value_parser!(u16).range(1..=65531))]
    pub port: u16,
    /// Further names and addresses by which clients reach the API server, for its certificate
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub apiserver_cert_extra_sans: Vec<String>,
    /// Also write the administrator's kubeconfig here
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreKind {
    Embedded,
    Memory,
}

impl fmt::Display for StoreKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Embedded => "embedded",
            Self::Memory => "memory",
        })
    }
}

impl Options {
    /// What the command line means when it says nothing.
    pub fn defaults(data_dir: PathBuf) -> Self {
        Self {
            nodes: 3,
            data_dir,
            store: StoreKind::Embedded,
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 6443,
            apiserver_cert_extra_sans: Vec::new(),
            kubeconfig: None,
        }
    }
}

/// One clear line each.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error(transparent)]
    DataDir(#[from] data_dir::DataDirError),
    #[error(transparent)]
    Certificates(#[from] certificates::CertificatesError),
    #[error("--kubeconfig: {0}")]
    Kubeconfig(#[from] kubeconfig::KubeconfigError),
    #[error("{component}: cannot listen on {address}: {source}")]
    Port { component: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("{component}: cannot be started: {source}")]
    Start { component: &'static str, source: std::io::Error },
    #[error("{component} ended ({status}): {last_words}")]
    Ended { component: &'static str, status: String, last_words: String },
    #[error(transparent)]
    Ready(#[from] ready::ReadyError),
}

/// Runs a cluster until the environment shuts down. A component that ends while the cluster starts is an error;
/// later it is started again.
pub async fn run(options: Options, env: Env) -> Result<(), UpError> {
    let progress = Progress::new();
    let data_dir = DataDir::open(&options.data_dir)?;
    let components = components::components(&options, &data_dir);
    check_ports(&options, &components)?;
    let admin = certificates::prepare(&options, &data_dir, env.wall())?;
    if let Some(path) = &options.kubeconfig {
        kubeconfig::write(path, &admin, "orrery", "kubernetes-admin")?;
    }
    let mut cluster = Cluster { env: &env, progress: &progress, running: Vec::new() };
    let ended = cluster.live(&options, &data_dir, &components, &admin).await;
    cluster.stop().await;
    ended
}

/// The processes of this run.
struct Cluster<'a> {
    env: &'a Env,
    progress: &'a Progress,
    running: Vec<Process>,
}

impl Cluster<'_> {
    async fn live(
        &mut self,
        options: &Options,
        data_dir: &DataDir,
        components: &[Component],
        admin: &Connection,
    ) -> Result<(), UpError> {
        let waiting = ready::Waiting::new(self.env, admin)?;
        let program = std::env::current_exe();
        let program = program.map_err(|source| UpError::Start { component: "orrery", source })?;
        for component in components {
            self.start(&program, component, data_dir)?;
            if component.name == "apiserver" {
                self.unless_ended(waiting.apiserver()).await?;
                self.progress.ready(component.name, &admin.server);
            }
        }
        for component in components.iter().filter(|component| component.name != "apiserver") {
            let done = self.unless_ended(waiting.component(component.name, options.nodes)).await?;
            if self.env.shutdown().is_cancelled() {
                return Ok(());
            }
            self.progress.ready(component.name, &done);
        }
        if !self.env.shutdown().is_cancelled() {
            self.progress.greet(options, data_dir);
        }
        self.keep_running(&program, data_dir, components).await
    }

    /// Restarts what ends by itself, each time a little later, until shutdown.
    async fn keep_running(
        &mut self,
        program: &Path,
        data_dir: &DataDir,
        components: &[Component],
    ) -> Result<(), UpError> {
        let mut backoff = FIRST_RESTART;
        loop {
            let waiting = std::future::pending::<Result<String, ready::ReadyError>>();
            let began = self.env.now();
            match self.unless_ended(waiting).await {
                Ok(_) => return Ok(()),
                Err(UpError::Ended { component, status, last_words }) => {
                    // A long quiet time has earned a fresh start.
                    backoff = if began.elapsed() > QUIET { FIRST_RESTART } else { (backoff * 2).min(LAST_RESTART) };
                    self.progress.restarting(component, &status, &last_words);
                    let shutdown = self.env.shutdown().clone();
                    let wait = self.env.timeout(backoff, shutdown.cancelled());
                    if wait.await.is_ok() {
                        return Ok(());
                    }
                    let again = components.iter().find(|known| known.name == component);
                    let again = again.expect("only components are started");
                    self.start(program, again, data_dir)?;
                }
                Err(other) => return Err(other),
            }
        }
    }

    fn start(&mut self, program: &Path, component: &Component, data_dir: &DataDir) -> Result<(), UpError> {
        let name = component.name;
        let process = Process::start(program, name, &component.arguments, &data_dir.log_of(name))
            .map_err(|source| UpError::Start { component: name, source })?;
        self.running.push(process);
        Ok(())
    }

    /// Waits for `condition`, for shutdown, or for the first component that ends by itself, which is an error.
    async fn unless_ended(
        &mut self,
        condition: impl Future<Output = Result<String, ready::ReadyError>>,
    ) -> Result<String, UpError> {
        let shutdown = self.env.shutdown().clone();
        let running = &mut self.running;
        let outcome = tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(String::new()),
            (index, status) = first_ended(running) => Err((index, status)),
            met = condition => Ok(met),
        };
        match outcome {
            Ok(met) => Ok(met?),
            Err((index, status)) => {
                let process = self.running.remove(index);
                Err(UpError::Ended { component: process.name, status, last_words: process.last_words() })
            }
        }
    }

    /// Stops node agents first and the API server last, so that everybody can still say goodbye to it.
    async fn stop(mut self) {
        for name in components::stop_order() {
            if let Some(index) = self.running.iter().position(|process| process.name == name) {
                self.running.remove(index).stop(self.env).await;
                self.progress.stopped(name);
            }
        }
    }
}

/// The first of the processes to end by itself, and how it did.
async fn first_ended(running: &mut [Process]) -> (usize, String) {
    let mut ends: Vec<Pin<Box<dyn Future<Output = std::io::Result<ExitStatus>> + Send + '_>>> =
        running.iter_mut().map(|process| Box::pin(process.ended()) as _).collect();
    std::future::poll_fn(|context| {
        for (index, end) in ends.iter_mut().enumerate() {
            if let Poll::Ready(status) = end.as_mut().poll(context) {
                let status = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                return Poll::Ready((index, status));
            }
        }
        Poll::Pending
    })
    .await
}

/// Says in one line who cannot have its port, before anything is started.
fn check_ports(options: &Options, components: &[Component]) -> Result<(), UpError> {
    for component in components {
        let address = SocketAddr::new(options.bind_address, component.port);
        std::net::TcpListener::bind(address).map_err(|source| UpError::Port {
            component: component.name,
            address,
            source,
        })?;
    }
    Ok(())
}
