//! The flags of the cloud controller manager, with the names and defaults of Kubernetes' cloud-controller-manager.
//!
//! Corresponds to k8s.io/cloud-provider/options.

use super::flags::CloudControllerManager;
use crate::manager;
use clap::Args;
use component_base::duration::parse_duration;
use component_base::kubeconfig::{self, Connection};
use component_base::options::{
    CertDirOptions, ClientOptions, LeaderElectionOptions, OptionsError, OriginalFlags, ServingOptions,
};
use controller_base::cloud_options::CloudOptions;
use controller_base::leader_migration::LeaderMigrationOptions;
use controller_base::options::Settings;
use ipnet::IpNet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the only cloud provider.
pub const PROVIDER: &str = "orrery";

/// The command line of `cloud-controller-manager`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<CloudControllerManager>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub cert_dir: CertDirOptions,
    /// Cloud provider: orrery, which is simulated, is the only one
    #[arg(long, value_name = "NAME")]
    pub cloud_provider: Option<String>,
    /// How the cloud is reached, in the form of a kubeconfig: its URL, its authority, and a client certificate
    #[arg(long, value_name = "FILE")]
    pub cloud_config: Option<PathBuf>,
    #[command(flatten)]
    pub settings: CloudSettings,
}

/// Settings of the controllers.
#[derive(Args, Clone, Debug)]
pub struct CloudSettings {
    /// Controllers to run: '*' for all that are on by default, 'foo' for one more, '-foo' for all but that
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    /// Pause between the starts of two controllers
    #[arg(long, default_value = "0s", value_parser = parse_duration)]
    pub controller_start_interval: Duration,
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    #[command(flatten)]
    pub leader_migration: LeaderMigrationOptions,
    /// Let each controller write under its own service account
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub use_service_account_credentials: bool,
    /// Nodes have ranges of pod addresses, which need routes
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub allocate_node_cidrs: bool,
    /// Ranges of all pods' addresses: the cloud's routes to them are the manager's
    #[arg(long, value_delimiter = ',', action = clap::ArgAction::Set)]
    pub cluster_cidr: Vec<IpNet>,
    /// How often the machine of every node is looked at
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub node_monitor_period: Duration,
    #[command(flatten)]
    pub cloud: CloudOptions,
}

impl CloudSettings {
    /// Returns the settings in the form that controllers read.
    pub fn settings(self) -> (Settings, CloudOptions) {
        let settings = Settings {
            controllers: self.controllers,
            controller_start_interval: self.controller_start_interval,
            leader_election: self.leader_election,
            leader_migration: self.leader_migration,
            use_service_account_credentials: self.use_service_account_credentials,
            allocate_node_cidrs: self.allocate_node_cidrs,
            cluster_cidr: self.cluster_cidr,
            node_monitor_period: self.node_monitor_period,
            ..Settings::default()
        };
        (settings, self.cloud)
    }
}

pub fn check_provider(name: Option<&str>) -> Result<(), OptionsError> {
    let message = match name {
        Some(PROVIDER) => return Ok(()),
        Some(name) => format!("unknown cloud provider {name:?}: the simulated one is called {PROVIDER}"),
        None => format!("no cloud provider: the simulated one is called {PROVIDER}"),
    };
    Err(OptionsError::Invalid { flag: "cloud-provider", message })
}

/// Reads how the cloud is reached.
pub fn connection(file: Option<&Path>) -> Result<Connection, manager::Error> {
    let Some(file) = file else {
        let message = "it is needed: the file that `orrery certs` makes in cloud-controller-manager".to_owned();
        return Err(OptionsError::Invalid { flag: "cloud-config", message }.into());
    };
    Ok(kubeconfig::read(file)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_cloud() {
        assert!(check_provider(Some("orrery")).is_ok());
        let refused = |name| check_provider(name).unwrap_err().to_string();
        let expected = r#"--cloud-provider: unknown cloud provider "gce": the simulated one is called orrery"#;
        assert_eq!(refused(Some("gce")), expected);
        assert_eq!(refused(None), "--cloud-provider: no cloud provider: the simulated one is called orrery");
        let expected = "--cloud-config: it is needed: the file that `orrery certs` makes in cloud-controller-manager";
        assert_eq!(connection(None).unwrap_err().to_string(), expected);
    }
}
