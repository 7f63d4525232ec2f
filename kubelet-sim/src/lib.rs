//! Simulated nodes: one process registers many, keeps their leases and statuses, and lives their pods' lives.
//!
//! Corresponds to pkg/kubelet. Machines and containers are simulated; everything that the API server sees of them
//! is what a kubelet would write. Read first: `pod::lifecycle`, then `fleet`.

// How it runs.
pub mod config;
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
pub mod duration;

pub use crate::config::{Config, Settings};
use client::Client;
use client::delegated_auth::DelegatedAuth;
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{OptionsError, ServingOptions};
use component_base::serving;
use component_base::tls::TlsError;
use serde_json::json;
use std::sync::Arc;

/// Where a kubelet serves.
const DEFAULT_PORT: u16 = 10250;

/// One clear line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("API server: {0}")]
    Client(#[from] client::Error),
}

/// Runs as a process until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config { client, serving, settings } = config;
    let client = Client::connect(&env, &client.connection()?, "kubelet-sim")?;
    if let Some(address) = serving.address(DEFAULT_PORT) {
        let tls = serving.tls()?;
        let listener = ServingOptions::listen(address).await?;
        let configz = json!({"nodes": settings.nodes, "nodeNamePrefix": settings.node_name_prefix});
        let health = HealthServer::new().configz(json!({"kubeletsim": configz}));
        let service = health.gate(Arc::new(DelegatedAuth::new(&client))).service(&env);
        let serving_env = env.clone();
        env.spawn(async move {
            if let Err(error) = serving::serve(&serving_env, listener, tls, service).await {
                tracing::error!(%error, "the port of kubelet-sim is not served");
                serving_env.shutdown().cancel();
            }
        });
    }
    run_with(client, settings, env).await
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    let client = client.in_env(&env);
    fleet::Fleet::run(client, settings, env).await;
    Ok(())
}
