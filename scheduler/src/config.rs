//! The flags of the scheduler, with the names and defaults of kube-scheduler.
//!
//! Corresponds to cmd/kube-scheduler/app/options.

use crate::flags::KubeScheduler;
use clap::Args;
use component_base::options::config_file::{Field, FileKind, flag, ignored, own};
use component_base::options::{
    self, CertDirOptions, ClientOptions, ConfigFile, ConfigFileError, LeaderElectionOptions, OriginalFlags,
    ServingOptions,
};
use scheduling_framework::Features;
use scheduling_framework::configuration::{Configuration, OWN_FIELDS};
use std::path::PathBuf;

const KUBE_SCHEDULER_CONFIGURATION: FileKind = FileKind {
    api_version: "kubescheduler.config.k8s.io/v1",
    kind: "KubeSchedulerConfiguration",
    fields: &[FLAGS, &OWN_FIELDS_OF_FILE],
};

/// Fields with a flag.
const FLAGS: &[Field] = &[
    ignored("clientConnection.acceptContentTypes"),
    flag("clientConnection.burst", "kube-api-burst"),
    ignored("clientConnection.contentType"),
    flag("clientConnection.kubeconfig", "kubeconfig"),
    flag("clientConnection.qps", "kube-api-qps"),
    flag("leaderElection.leaderElect", "leader-elect"),
    flag("leaderElection.leaseDuration", "leader-elect-lease-duration"),
    flag("leaderElection.renewDeadline", "leader-elect-renew-deadline"),
    flag("leaderElection.resourceLock", "leader-elect-resource-lock"),
    flag("leaderElection.resourceName", "leader-elect-resource-name"),
    flag("leaderElection.resourceNamespace", "leader-elect-resource-namespace"),
    flag("leaderElection.retryPeriod", "leader-elect-retry-period"),
];

/// Fields that `configuration` reads.
const OWN_FIELDS_OF_FILE: [Field; OWN_FIELDS.len()] = {
    let mut fields = [own(""); OWN_FIELDS.len()];
    let mut at = 0;
    while at < fields.len() {
        fields[at] = own(OWN_FIELDS[at]);
        at += 1;
    }
    fields
};

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
        let features = Features::of(self.original.gate_values());
        let Some(path) = self.config_file.clone() else {
            self.settings.configuration = self.settings.configuration.with_features(features);
            self.settings.rename_profile();
            return Ok(self);
        };
        let file = ConfigFile::read_all(&path, &KUBE_SCHEDULER_CONFIGURATION)?;
        let (configuration, mut mistakes) = match Configuration::read_for(&file.own, features) {
            Ok(configuration) => (configuration, Vec::new()),
            Err(mistakes) => (Configuration::default(), mistakes),
        };
        let flags = file.completed(&self.original, &mut self.client, &mut self.serving, &mut self.settings);
        mistakes.extend(flags);
        let file = file.or_invalid(mistakes)?;
        file.warnings_of(Configuration::without_effect(&file.own)).for_each(|warning| tracing::warn!("{warning}"));
        self.settings.configuration = configuration;
        self.settings.rename_profile();
        Ok(self)
    }
}

/// Settings of the scheduler, whether it runs as a process or inside another.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    /// Value of spec.schedulerName in the pods that this scheduler assigns
    #[arg(long)]
    pub scheduler_name: Option<String>,
    /// Number of attempts that are kept, to be explained later; 0 keeps none. Kubernetes' scheduler has no such flag
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub explain_attempts: usize,
    /// Profiles and everything else that only the file has
    #[arg(skip)]
    pub configuration: Configuration,
}

impl Settings {
    /// Gives the only profile the name of the flag. Of several profiles each keeps its own.
    fn rename_profile(&mut self) {
        match (&self.scheduler_name, self.configuration.profiles.as_mut_slice()) {
            (Some(name), [only]) => only.scheduler_name.clone_from(name),
            (Some(_), _) => tracing::warn!("--scheduler-name has no effect beside a file with several profiles"),
            (None, _) => {}
        }
    }
}

impl Default for Settings {
    /// The defaults of the flags.
    fn default() -> Self {
        options::defaults()
    }
}
