//! `orrery addons`: gives a cluster what users expect of one and Kubernetes itself does not bring.
//!
//! That is `kubectl top`, and a default StorageClass. `up` does it by itself; a cluster whose components are started one by one
//! needs the command. Corresponds to the addons of kind and minikube.

pub mod storage_class;

use clap::Args;
use client::{Client, ConnectError, Error};
use component_base::env::Env;
use component_base::options::ClientOptions;
use metrics_server::register::{self, RegisterError};

#[derive(Args, Clone, Debug)]
pub struct Options {
    #[command(flatten)]
    pub client: ClientOptions,
    /// Where the API server reaches the metrics-server, which is a process of its own
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_endpoint: String,
}

/// Why a cluster lacks an addon, in one line.
#[derive(Debug, thiserror::Error)]
pub enum AddonsError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Metrics(#[from] RegisterError),
    #[error("the default StorageClass cannot be created: {0}")]
    StorageClass(Error),
}

/// Installs the addons, and allows the metrics-server what it does.
pub async fn run(options: Options, env: Env) -> Result<(), AddonsError> {
    let client = Client::from_options(&env, &options.client, "orrery-addons")?;
    register::permit(&client).await?;
    install(&client, &options.metrics_endpoint).await
}

/// Installs the addons of a cluster whose `metrics.k8s.io` is served at `metrics_endpoint`.
pub async fn install(admin: &Client, metrics_endpoint: &str) -> Result<(), AddonsError> {
    register::register(admin, metrics_endpoint).await?;
    storage_class::create(admin).await.map_err(AddonsError::StorageClass)
}
