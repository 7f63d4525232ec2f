//! The command line of the simulated proxies.
//!
//! Corresponds to cmd/kube-proxy/app/options.go.

use crate::config_file::KUBE_PROXY_CONFIGURATION;
use crate::flags::KubeProxy;
use crate::print;
use clap::{Args, Subcommand};
use component_base::options::{ClientOptions, ConfigFile, ConfigFileError, OriginalFlags, ServingOptions};
use ipnet::IpNet;
use std::path::PathBuf;

/// The command line of `proxy-sim`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<KubeProxy>,
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Configuration file, a KubeProxyConfiguration; flags of the command line override its fields
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub settings: Settings,
}

impl Config {
    /// Adds the values of the configuration file, if one is given.
    pub fn with_file(mut self) -> Result<Self, ConfigFileError> {
        let Some(path) = &self.config_file else { return Ok(self) };
        let file = ConfigFile::read(path, &KUBE_PROXY_CONFIGURATION)?;
        file.warnings().for_each(|warning| tracing::warn!("{warning}"));
        file.complete(&self.original, &mut self.client, &mut self.serving, &mut self.settings)?;
        Ok(self)
    }
}

#[derive(Subcommand, Clone, Debug)]
pub enum Command {
    /// Print the rules that the proxy of one node has programmed, as iptables-save would
    Rules(print::Options),
}

/// The settings of the proxies, which do not depend on their connections.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    /// The CIDR of the cluster's pods; traffic to cluster IPs from outside it is masqueraded
    #[arg(long, default_value = "10.244.0.0/16", value_name = "CIDR")]
    pub cluster_cidr: IpNet,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cluster_cidr: "10.244.0.0/16".parse().expect("a literal range") }
    }
}
