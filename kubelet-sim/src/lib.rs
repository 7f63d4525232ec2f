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
pub mod node;
pub mod machine;
pub mod images;
pub mod heartbeat;
pub mod lease;
pub mod addresses;

// Its pods.
pub mod pod;

pub use crate::config::{Config, Settings};
use client::Client;
use client::component::{Component, Error};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use serde_json::json;

const COMPONENT: Component = Component { name: "kubelet-sim", port: config::KUBELET_PORT };

/// Runs as a process until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    config.original.warn();
    let Config { client, serving, mut settings, .. } = config.with_file()?;
    settings.port = serving.address(COMPONENT.port).map_or(0, |address| address.port());
    let client = COMPONENT.connect(&env, &client)?;
    let configz = json!({"nodes": settings.nodes, "nodeNamePrefix": settings.node_name_prefix});
    COMPONENT.serve(&client, &serving, HealthServer::new().configz(json!({"kubeletsim": configz}))).await?;
    run_with(client, settings, env).await
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    fleet::Fleet::run(client.in_env(&env), settings, env).await;
    Ok(())
}
