//! The flags of the scheduler, with the names and defaults of kube-scheduler.
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
    /// File with a KubeSchedulerConfiguration; flags override it
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
    /// Adds the settings of the configuration file, if there is one.
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

/// Settings of the scheduler, whether it runs as a process or inside another.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    /// Value of spec.schedulerName in the pods that this scheduler assigns
    #[arg(long, default_value = crate::plugins::DEFAULT_SCHEDULER)]
    pub scheduler_name: String,
    /// Plugins that run
    #[arg(skip)]
    pub plugins: Selection,
}

impl Default for Settings {
    /// The defaults of the flags.
    fn default() -> Self {
        options::defaults()
    }
}
