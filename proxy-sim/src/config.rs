//! The command line of the simulated proxies.
//!
//! Corresponds to cmd/kube-proxy/app/options.go.

use crate::flags::KubeProxy;
use crate::print;
use clap::{Args, Subcommand};
use component_base::options::{ClientOptions, OriginalFlags, ServingOptions};
use ipnet::IpNet;

/// The command line of `proxy-sim`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<KubeProxy>,
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
    pub cluster_cidr: IpNet,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cluster_cidr: "10.244.0.0/16".parse().expect("a literal range") }
    }
}
