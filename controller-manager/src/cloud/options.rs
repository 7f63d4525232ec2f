//! The flags of the cloud controller manager, with the names and defaults of Kubernetes' cloud-controller-manager.
//!
//! Corresponds to k8s.io/cloud-provider/options.

use super::flags::CloudControllerManager;
use clap::Args;
use component_base::options::{
    CertDirOptions, ClientOptions, LeaderElectionOptions, OptionsError, OriginalFlags, ServingOptions,
};
use controller_base::options::Settings;

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
    #[command(flatten)]
    pub settings: CloudSettings,
}

/// Settings of the controllers.
#[derive(Args, Clone, Debug)]
pub struct CloudSettings {
    /// Controllers to run: '*' for all that are on by default, 'foo' for one more, '-foo' for all but that
    #[arg(long, value_delimiter = ',', default_value = "*", allow_hyphen_values = true)]
    pub controllers: Vec<String>,
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    /// Let each controller write under its own service account
    #[arg(long, default_value_t = false, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub use_service_account_credentials: bool,
}

impl CloudSettings {
    /// Returns the settings in the form that controllers read.
    pub fn settings(self) -> Settings {
        let Self { controllers, leader_election, use_service_account_credentials } = self;
        Settings { controllers, leader_election, use_service_account_credentials, ..Settings::default() }
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
    }
}
