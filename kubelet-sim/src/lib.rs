//! Simulated nodes: one process registers many, keeps their leases and statuses, and lives their pods' lives.
//!
//! Corresponds to pkg/kubelet. Machines and containers are simulated; everything that the API server sees of them
//! is what a kubelet would write. Read first: `pod::lifecycle`, then `fleet`.

// How it runs.
pub mod config;
pub mod config_file;
pub mod flags;
pub mod fleet;
pub mod row;

// A node.
pub mod certificate;
pub mod node;
pub mod machine;
pub mod images;
pub mod heartbeat;
pub mod lease;
pub mod addresses;

// Its pods.
pub mod pod;

// What its agent serves.
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
        let invited = kubeconfig::read(&path).map_err(ConnectError::from)?;
        // What is wrong with it is said now.
        Client::connect(&env, &invited, COMPONENT.name).map_err(ConnectError::from)?;
        let rotates = bootstrapping.rotate_certificates;
        settings.bootstrap = Some(Bootstrap { invited, rotates, cert_dir: Some(cert_dir.clone()) });
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

/// Where this machine reaches the port.
fn own_endpoint(serving: &ServingOptions) -> Option<String> {
    let mut address = serving.address(COMPONENT.port)?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Some(address.to_string())
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    Fleet::run(client.in_env(&env), settings, env).await;
    Ok(())
}
