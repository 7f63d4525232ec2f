//! The command line of `metrics-server`.
//!
//! Corresponds to cmd/metrics-server/app/options of sigs.k8s.io/metrics-server.

use clap::Args;
use client::front_proxy::FrontProxy;
use component_base::duration::parse_duration;
use component_base::options::{ClientOptions, ServingOptions};
use std::path::PathBuf;
use std::time::Duration;

/// The shortest period between measurements that metrics-server accepts.
pub const MIN_RESOLUTION: Duration = Duration::from_secs(10);

#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub front_proxy: FrontProxyOptions,
    /// Period at which every node is asked for its usage
    #[arg(long, default_value = "15s", value_parser = parse_duration, value_name = "DURATION")]
    pub metric_resolution: Duration,
}

/// Serving the group metrics.k8s.io, for whose users the API server asks as their proxy.
#[derive(Args, Clone, Debug, Default)]
pub struct FrontProxyOptions {
    /// Proxies that show a certificate of this authority (PEM) are believed about their users: the API server, when it
    /// passes requests for metrics.k8s.io on
    #[arg(long, value_name = "FILE")]
    pub requestheader_client_ca_file: Option<PathBuf>,
    /// Common names that such a certificate may have; any where none is given
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    pub requestheader_allowed_names: Vec<String>,
}

impl FrontProxyOptions {
    pub fn trusted(&self) -> FrontProxy {
        FrontProxy { allowed_names: self.requestheader_allowed_names.clone() }
    }
}
