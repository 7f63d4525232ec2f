//! The flags of the scheduler, under the names and with the defaults of kube-scheduler.
//!
//! Corresponds to cmd/kube-scheduler/app/options.

use crate::flags::KubeScheduler;
use clap::Args;
use component_base::options::{self, ClientOptions, LeaderElectionOptions, OriginalFlags, ServingOptions};

/// The command line of `scheduler`.
#[derive(Args, Clone, Debug)]
pub struct Config {
    #[command(flatten)]
    pub original: OriginalFlags<KubeScheduler>,
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub serving: ServingOptions,
    #[command(flatten)]
    pub settings: Settings,
}

/// What does not depend on how the process is reached or reaches others.
#[derive(Args, Clone, Debug)]
pub struct Settings {
    #[command(flatten)]
    pub leader_election: LeaderElectionOptions,
    /// The name by which pods ask for this scheduler
    #[arg(long, default_value = crate::plugins::DEFAULT_SCHEDULER)]
    pub scheduler_name: String,
}

impl Default for Settings {
    /// What the flags default to.
    fn default() -> Self {
        options::defaults()
    }
}
