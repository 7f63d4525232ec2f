//! Simulated kube-proxies: Services and EndpointSlices become the rules that each node would program.
//!
//! Corresponds to pkg/proxy. Read in this order: service ports and endpoints (`model`), what a rule is (`rules`), how
//! the model becomes rules (`iptables`), what keeps the model current (`proxy`), and how the rules are served
//! (`server`).

// The command line.
pub mod config;
pub mod config_file;
pub mod flags;

// From objects to rules.
pub mod model;
pub mod rules;
pub mod chain_names;
pub mod iptables;

// What keeps the model current, and what shows the rules.
pub mod proxy;
pub mod metrics;
pub mod server;
pub mod print;

pub use config::{Config, Settings};

use client::Client;
use client::component::{self, Component};
use component_base::env::Env;
use component_base::options::ConfigFileError;
use component_base::zpages::ZPages;
use config::Command;
use proxy::Proxies;

/// The port is that of kube-proxy's health checks; here it serves TLS.
const COMPONENT: Component = Component { name: "proxy-sim", port: 10256, original: "kube-proxy" };

/// Why the process ends; each error is one line.
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
    let zpages = ZPages::of(&env, &config.original);
    let Config { client, serving, settings, .. } = config.with_file()?;
    let client = COMPONENT.connect(&env, &client)?;
    // kube-proxy has no flag for a folder of certificates, because its health checks are plain HTTP.
    let serving = COMPONENT.with_certificate(&env, serving, None)?;
    let proxies = Proxies::new(&client, &settings);
    COMPONENT.serve(&client, &serving, server::pages(&proxies).zpages(zpages)).await?;
    proxies.run().await;
    Ok(())
}

/// Runs inside another process, with its client: without a kubeconfig and without a port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    Proxies::new(&client.in_env(&env), &settings).run().await;
    Ok(())
}
