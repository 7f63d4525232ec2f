//! The flags of the scheduler, under the names and with the defaults of kube-scheduler.
//!
//! Corresponds to cmd/kube-scheduler/app/options.

use crate::config_file::{KUBE_SCHEDULER_CONFIGURATION, PROFILES, ProfileConfig};
use crate::flags::KubeScheduler;
use crate::plugins::selection::Selection;
use clap::Args;
use component_base::options::{
    self, CertDirOptions, ClientOptions, ConfigFile, ConfigFileError, LeaderElectionOptions, OriginalFlags,
    ServingOptions,
};
use std::path::PathBuf;

/// The command line of `scheduler`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<KubeScheduler>,
    /// Configuration as a file, a KubeSchedulerConfiguration; the command line has the last word
    #[arg(long = "config", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub cert_dir: CertDirOptions,
    #[command(flatten)]
    pub settings: Settings,
}

impl Config {
    /// With what its configuration file says, where it has one.
    pub fn with_file(mut self) -> Result<Self, ConfigFileError> {
        let Some(path) = &self.config_file else { return Ok(self) };
        let file = ConfigFile::read(path, &KUBE_SCHEDULER_CONFIGURATION)?;
        let profile = match file.own.get(PROFILES) {
            Some(profiles) => ProfileConfig::of(profiles).map_err(|message| file.invalid(message))?,
            None => ProfileConfig::default(),
        };
        profile.plugins.check().map_err(|message| file.invalid(message))?;
        file.warnings_of(profile.ignored()).for_each(|warning| tracing::warn!("{warning}"));
        file.complete(&self.original, &mut self.client, &mut self.serving, &mut self.settings)?;
        if let Some(name) = profile.scheduler_name.filter(|_| !self.original.has("scheduler_name")) {
            self.settings.scheduler_name = name;
        }
        self.settings.plugins = profile.plugins;
        Ok(self)
    }
}

/// What does not depend on how the process is reached or reaches others.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    /// The name by which pods ask for this scheduler
    #[arg(long, default_value = crate::plugins::DEFAULT_SCHEDULER)]
    pub scheduler_name: String,
    /// Which plugins run
    #[arg(skip)]
    pub plugins: Selection,
}

impl Default for Settings {
    /// What the flags default to.
    fn default() -> Self {
        options::defaults()
    }
}
