//! `orrery up`: runs a whole control plane, each component as its own process, until it is stopped.
//!
//! A start locks the data directory, issues missing certificates, starts the API server and waits until it is ready, then
//! starts the other components and waits until the nodes are ready. A stop goes in reverse order.

pub mod data_dir;
pub mod components;
pub mod passed_on;
pub mod process;
pub mod restarts;
pub mod ready;
pub mod static_control_plane;
pub mod progress;
pub mod cluster;
pub mod record;
pub mod ports;
pub mod detach;
pub mod signal;

use crate::addons::{self, AddonsError};
use crate::admin_kubeconfig::{self, AdminKubeconfigError};
use crate::certificates::{self, ADMIN, CertificatesError, Identities};
use crate::place::Place;
pub use apiserver::config::StoreKind;
use clap::Args;
use cluster::Cluster;
use component_base::env::Env;
use component_base::kubeconfig;
use component_base::options::OptionsError;
use components::Component;
use data_dir::DataDir;
use kubelet_sim::machines::failure_file;
use kubelet_sim::template;
use passed_on::PassedOn;
use progress::Progress;
use ready::Waiting;
use record::{ComponentRecord, Record};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Most nodes, limited by the ranges of pods' addresses.
const MAX_NODES: i64 = 32_768;

/// Options of `orrery up`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Number of simulated nodes
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=MAX_NODES))]
    pub nodes: u32,
    /// File or folder with KWOK's stages, which pods and nodes go through; as often as you like
    #[arg(long, value_name = "PATH")]
    pub stages: Vec<PathBuf>,
    /// Show the control plane's components as static pods of the first node
    #[arg(long)]
    pub static_control_plane: bool,
    /// File with templates of nodes, instead of --nodes; as often as you like
    #[arg(long, value_name = "FILE", conflicts_with = "nodes")]
    pub node_template: Vec<PathBuf>,
    /// Also run a cloud: the nodes are its machines, and Services of type LoadBalancer get addresses (docs/cloud.md)
    #[arg(long, conflicts_with = "node_template")]
    pub cloud: bool,
    /// File with models of failures of machines; as often as you like
    #[arg(long, value_name = "FILE")]
    pub failure_model: Vec<PathBuf>,
    #[command(flatten)]
    pub place: Place,
    /// Engine behind the API server: embedded survives a restart, memory does not, etcd is a cluster of its own
    #[arg(long, value_enum, default_value_t = StoreKind::Embedded, value_name = "ENGINE")]
    pub store: StoreKind,
    /// Members of the etcd cluster, as client URLs; with --store etcd
    #[arg(long, value_delimiter = ',', value_name = "URLS", required_if_eq("store", "etcd"))]
    pub etcd_endpoints: Vec<String>,
    /// Authority (PEM) that signed etcd's certificates
    #[arg(long, value_name = "FILE", requires = "etcd_endpoints")]
    pub etcd_cafile: Option<PathBuf>,
    /// Certificate (PEM) to show to etcd
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// Key (PEM) of the certificate to show to etcd
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// Address that the components listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_name = "IP")]
    pub bind_address: IpAddr,
    /// Port of the API server, and the first of five, or of seven with --cloud [default: 6443, or for another name the first free ones after it]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65529))]
    pub port: Option<u16>,
    /// Further names and addresses by which clients reach the API server, for its certificate
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub apiserver_cert_extra_sans: Vec<String>,
    /// Also write the administrator's kubeconfig here
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
    /// Fill the cluster's store from this snapshot first; it has to be empty
    #[arg(long, value_name = "FILE")]
    pub restore: Option<PathBuf>,
    /// Leave the cluster running once it is ready; `orrery down` ends it
    #[arg(long)]
    pub detach: bool,
    /// What `--detach` has started
    #[arg(long, hide = true)]
    pub detached: bool,
    #[command(flatten)]
    pub passed_on: PassedOn,
}

impl Options {
    /// Returns the port of the API server.
    pub fn base_port(&self) -> u16 {
        self.port.unwrap_or_else(|| ports::choose(&self.place, self.bind_address))
    }

    /// Returns the options of an empty command line.
    pub fn defaults(data_dir: PathBuf) -> Self {
        Self {
            nodes: 3,
            stages: Vec::new(),
            static_control_plane: false,
            node_template: Vec::new(),
            failure_model: Vec::new(),
            cloud: false,
            place: Place::at(data_dir),
            store: StoreKind::Embedded,
            etcd_endpoints: Vec::new(),
            etcd_cafile: None,
            etcd_certfile: None,
            etcd_keyfile: None,
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: None,
            apiserver_cert_extra_sans: Vec::new(),
            kubeconfig: None,
            restore: None,
            detach: false,
            detached: false,
            passed_on: PassedOn::default(),
        }
    }
}

/// The reason why a cluster does not run, in one line.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    #[error(transparent)]
    DataDir(#[from] data_dir::DataDirError),
    #[error(transparent)]
    Certificates(#[from] CertificatesError),
    #[error(transparent)]
    AdminKubeconfig(#[from] AdminKubeconfigError),
    #[error("{component}: cannot listen on {address}: {source}")]
    Port { component: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("{component}: cannot be started: {source}")]
    Start { component: &'static str, source: std::io::Error },
    #[error("{component} ended ({status}){}", last_log_line.as_ref().map(|words| format!(": {words}")).unwrap_or_default())]
    Ended { component: &'static str, status: String, last_log_line: Option<String> },
    #[error("{message}")]
    Detached { message: String },
    #[error(transparent)]
    PassedOn(#[from] passed_on::PassedOnError),
    #[error(transparent)]
    Stages(#[from] OptionsError),
    #[error(transparent)]
    Ready(#[from] ready::ReadyError),
    #[error("{}: {source}", path.display())]
    Manifests { path: PathBuf, source: std::io::Error },
    #[error(transparent)]
    Addons(#[from] AddonsError),
}

/// Runs a cluster until the environment shuts down. Fails if a component ends while the cluster starts; later it is
/// restarted.
pub async fn run(options: Options, verbosity: u8, env: Env) -> Result<(), UpError> {
    for warning in passed_on::check(&options.passed_on)? {
        tracing::warn!("{warning}");
    }
    kubelet_sim::behaviour::files::read(&options.stages)?;
    failure_file::read(&options.failure_model)?;
    let templates = template::file::read(&options.node_template)?;
    let nodes = if templates.is_empty() { options.nodes } else { template::count(&templates) };
    let options = Options { nodes, ..options };
    if options.detach {
        return detach::run(&options, &env).await;
    }
    let options = Options { port: Some(options.base_port()), ..options };
    let progress = Progress::new();
    if let Some(path) = &options.kubeconfig {
        admin_kubeconfig::check(path, &options.place.name)?;
    }
    let data_dir = DataDir::open(&options.place.root())?;
    if options.store == StoreKind::Memory {
        data_dir.clear_volumes()?;
    }
    let components = components::components(&options, verbosity, &data_dir);
    ports::check(options.bind_address, &components)?;
    if options.static_control_plane {
        static_control_plane::write(&data_dir.manifests(), &components)?;
    }
    let admin = certificates::prepare(&identities(&options, &data_dir), env.wall())?;
    kubeconfig::write(&data_dir.kubeconfig(), &admin, &options.place.name, ADMIN).map_err(CertificatesError::from)?;
    if let Some(path) = &options.kubeconfig {
        admin_kubeconfig::write(path, &admin, &options.place.name)?;
    }
    let program = std::env::current_exe().map_err(|source| UpError::Start { component: "orrery", source })?;
    let waiting = Waiting::new(&env, &admin, &options)?;
    let mut cluster = Cluster::new(&env, &progress, &program, &data_dir, record(&options, &components));
    let started = cluster.start(&components, &waiting).await;
    if let Ok(true) = started {
        let metrics_endpoint = components::metrics_endpoint(&options, &components);
        if let Err(error) = addons::install(waiting.client(), &metrics_endpoint).await {
            cluster.stop().await;
            return Err(error.into());
        }
        progress.greet(&options, &data_dir);
        cluster.record_ready();
        cluster.keep_running(&components).await;
    }
    cluster.stop().await;
    started.map(|_| ())
}

/// Returns the certificates that a cluster with these options needs.
pub fn identities(options: &Options, data_dir: &DataDir) -> Identities {
    let cloud = components::cloud_url(options);
    Identities {
        nodes: Vec::new(),
        cloud,
        pki: data_dir.pki(),
        server: components::server_url(options.bind_address, options.base_port()),
        names: vec![options.bind_address.to_string()],
        apiserver_names: options.apiserver_cert_extra_sans.clone(),
        kubelet_names: Vec::new(),
    }
}

/// Returns the record of a cluster before its start.
fn record(options: &Options, components: &[Component]) -> Record {
    let server = |component: &Component| components::server_url(options.bind_address, component.port);
    let component =
        |c: &Component| ComponentRecord { name: c.name.to_owned(), server: server(c), ..ComponentRecord::default() };
    Record {
        process: std::process::id(),
        server: components::server_url(options.bind_address, options.base_port()),
        port: options.base_port(),
        store: options.store.to_string(),
        ready: false,
        components: components.iter().map(component).collect(),
    }
}
