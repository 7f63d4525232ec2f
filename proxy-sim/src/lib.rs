//! Simulated kube-proxies: Services and EndpointSlices become the rules that each node would program.
//!
//! Read in this order: what is known (`model`), what a rule is (`rules`), how the one becomes the other
//! (`iptables`), what keeps it current (`proxy`), and how it is shown (`server`). Corresponds to pkg/proxy.

// From objects to rules.
pub mod model;
pub mod rules;
pub mod chain_names;
pub mod iptables;

// Kept current, and shown.
pub mod proxy;
pub mod server;
pub mod print;

use clap::{Args, Subcommand};
use client::Client;
use client::delegated_auth::DelegatedAuth;
use component_base::env::Env;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{ClientOptions, OptionsError, ServingOptions};
use component_base::serving;
use component_base::tls::TlsError;
use proxy::Proxies;
use std::sync::Arc;

/// Where the original serves its health; ours serves TLS.
const DEFAULT_PORT: u16 = 10256;

/// The command line of `proxy-sim`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub settings: Settings,
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Print the rules that the proxy of one node has programmed, as iptables-save would
    Rules(print::Options),
}

/// What the proxies do, wherever they run.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The CIDR of the cluster's pods; traffic to cluster IPs from outside it is masqueraded
    #[arg(long, default_value = "10.244.0.0/16", value_name = "CIDR")]
    pub cluster_cidr: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cluster_cidr: "10.244.0.0/16".to_owned() }
    }
}

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
    #[error(transparent)]
    Print(#[from] print::PrintError),
}

/// Runs as a process until the environment shuts down, or prints what was asked for.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    if let Some(Command::Rules(options)) = &config.command {
        return Ok(print::run(options, &env).await?);
    }
    let client = Client::connect(&env, &config.client.connection()?, "proxy-sim")?;
    let (proxies, informers) = Proxies::new(&env, &client, &config.settings.cluster_cidr);
    if let Some(address) = config.serving.address(DEFAULT_PORT) {
        let tls = config.serving.tls()?;
        let listener = ServingOptions::listen(address).await?;
        let service = server::service(&env, &proxies, Arc::new(DelegatedAuth::new(&client)));
        let serving_env = env.clone();
        env.spawn(async move {
            if let Err(error) = serving::serve(&serving_env, listener, tls, service).await {
                tracing::error!(%error, "the port of proxy-sim is not served");
                serving_env.shutdown().cancel();
            }
        });
    }
    proxies.run(&env, &informers).await;
    Ok(())
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    let (proxies, informers) = Proxies::new(&env, &client, &settings.cluster_cidr);
    proxies.run(&env, &informers).await;
    Ok(())
}
