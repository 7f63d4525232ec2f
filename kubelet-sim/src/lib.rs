//! Simulated nodes: one process registers many, keeps their leases and statuses, and runs their pods.
//!
//! Corresponds to pkg/kubelet. Machines and containers are simulated; everything that the API server sees of them
//! is what a kubelet would write. The modules stand floor by floor: each one uses only those above it. Read
//! `pod::lifecycle` first, then `fleet`.

// The command line, and how a node gets its certificate.
pub mod certificate;
pub mod flags;
pub mod config_file;
pub mod config;

// One node: its machine, its Node and Lease objects, the addresses of its pods. No IO.
pub mod images;
pub mod image_name;
pub mod machine;
pub mod node;
pub mod lease;
pub mod addresses;

// The life of a pod. Pure.
pub mod pod;

// The processes of containers.
pub mod runtime;

// All nodes of the process: the work queues, and what is written to the API server.
pub mod fleet;

// What a node's agent serves.
pub mod agent;

use crate::certificate::Bootstrap;
pub use crate::config::{Config, Settings};
use crate::fleet::Fleet;
use client::Client;
use client::ConnectError;
use client::component::{Component, Error};
use client::delegated_auth::DelegatedAuth;
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::kubeconfig;
use component_base::options::ServingOptions;
use serde_json::json;
use std::net::{Ipv4Addr, Ipv6Addr};

const COMPONENT: Component = Component { name: "kubelet-sim", port: config::KUBELET_PORT, original: "kubelet" };

/// Runs as a process until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    config.original.warn();
    let version = config.original.version().to_owned();
    let Config { client, serving, mut settings, advertise_endpoint, bootstrapping, .. } = config.with_file()?;
    settings.check()?;
    settings.version = version;
    let cert_dir = bootstrapping.cert_dir;
    if let Some(path) = bootstrapping.bootstrap_kubeconfig {
        let connection = kubeconfig::read(&path).map_err(ConnectError::from)?;
        // A connection that cannot work is reported at the start, not by every node later.
        Client::connect(&env, &connection, COMPONENT.name).map_err(ConnectError::from)?;
        let rotates = bootstrapping.rotate_certificates;
        settings.bootstrap = Some(Bootstrap { connection, rotates, cert_dir: Some(cert_dir.clone()) });
    }
    settings.port = serving.address(COMPONENT.port).map_or(0, |address| address.port());
    let client = COMPONENT.connect(&env, &client)?;
    let serving = COMPONENT.with_certificate(&env, serving, Some(&cert_dir))?;
    let configz = json!({"nodes": settings.nodes, "nodeNamePrefix": settings.node_name_prefix});
    settings.agent_endpoint = advertise_endpoint.or_else(|| own_endpoint(&serving));
    let (fleet, informers) = Fleet::new(client.in_env(&env), settings, env);
    let pages = HealthServer::new().configz(json!({"kubeletsim": configz})).pages(agent::routes::routes(fleet.clone()));
    let gate = DelegatedAuth::new(&client).asking(agent::access::questions);
    COMPONENT.serve_behind(gate, &client, &serving, pages).await?;
    fleet.start(informers).await;
    Ok(())
}

/// Returns the address at which this machine reaches the port; `None` when nothing is served.
fn own_endpoint(serving: &ServingOptions) -> Option<String> {
    let mut address = serving.address(COMPONENT.port)?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Some(address.to_string())
}

/// Runs inside another process, with its client: without a kubeconfig and without a port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    Fleet::run(client.in_env(&env), settings, env).await;
    Ok(())
}
