//! Simulated kube-proxies: Services and EndpointSlices become the rules that each node would program.
//!
//! Read in this order: what is known (`model`), what a rule is (`rules`), how the one becomes the other
//! (`iptables`), what keeps it current (`proxy`), and how it is shown (`server`). Corresponds to pkg/proxy.

// How it runs.
pub mod config;
pub mod config_file;
pub mod flags;

// From objects to rules.
pub mod model;
pub mod rules;
pub mod chain_names;
pub mod iptables;

// Kept current, and shown.
pub mod proxy;
pub mod metrics;
pub mod server;
pub mod print;

pub use config::{Config, Settings};

use client::Client;
use client::component::{self, Component};
use component_base::env::Env;
use component_base::options::ConfigFileError;
use config::Command;
use proxy::Proxies;

/// Where the original serves its health; ours serves TLS.
const COMPONENT: Component = Component { name: "proxy-sim", port: 10256, original: "kube-proxy" };

/// One clear line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Component(#[from] component::Error),
    #[error(transparent)]
    ConfigFile(#[from] ConfigFileError),
    #[error(transparent)]
    Print(#[from] print::PrintError),
}

/// Runs as a process until the environment shuts down, or prints what was asked for.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    if let Some(Command::Rules(options)) = &config.command {
        return Ok(print::run(options, &env).await?);
    }
    config.original.warn();
    let Config { client, serving, settings, .. } = config.with_file()?;
    let client = COMPONENT.connect(&env, &client)?;
    // The original's health needs no certificate, so there is no flag for a folder either.
    let serving = COMPONENT.with_certificate(&env, serving, None)?;
    let proxies = Proxies::new(&client, &settings);
    COMPONENT.serve(&client, &serving, server::pages(&proxies)).await?;
    proxies.run().await;
    Ok(())
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    Proxies::new(&client.in_env(&env), &settings).run().await;
    Ok(())
}
