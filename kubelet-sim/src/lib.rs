//! Simulated nodes: one process registers many, keeps their leases and statuses, and lives their pods' lives.
//!
//! Corresponds to pkg/kubelet. Machines and containers are simulated; everything that the API server sees of them
//! is what a kubelet would write. Read first: `pod::lifecycle`, then `fleet`.

pub mod addresses;
pub mod config;
pub mod duration;
pub mod fleet;
pub mod heartbeat;
pub mod images;
pub mod lease;
pub mod machine;
pub mod node;
pub mod pod;
pub mod row;

pub use crate::config::{Config, Settings};
use client::Client;
use component_base::env::Env;

/// Why the process could not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kubeconfig(#[from] component_base::kubeconfig::KubeconfigError),
    #[error("cannot use the kubeconfig: {0}")]
    Client(#[from] client::Error),
}

/// Runs as a process of its own, until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let connection = config.client.connection()?;
    let client = Client::connect(&env, &connection, "kubelet-sim")?;
    run_with(client, config.settings, env).await;
    Ok(())
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) {
    fleet::Fleet::run(client, settings, env).await;
}
