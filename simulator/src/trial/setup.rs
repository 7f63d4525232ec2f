//! `Setup`: what a trial runs on.

use component_base::options;
use kubelet_sim::machines::failure_model::FailureModel;
use kubelet_sim::template::NodeTemplate;
use scheduler::Settings;
use serde_json::Value;
use std::time::Duration;

/// Prefix of the priority classes that are made for the priorities of pods.
pub const PRIORITY_CLASS: &str = "priority-";

/// How often machines that cannot fail renew their leases, and report, and how often the control plane looks at them. Without failures a heartbeat tells nothing, and
/// the heartbeats of thousands of nodes would be most of a run's requests.
const CALM_LEASE: Duration = Duration::from_secs(4 * 3600);
const CALM_REPORT: Duration = Duration::from_secs(3600);
/// Time without a heartbeat after which such a node would count as lost.
const CALM_GRACE: Duration = Duration::from_secs(8 * 3600);
/// Time for which the changes of pods are collected before the addresses of Services are written.
const BATCH: Duration = Duration::from_millis(500);

/// Which parts of a cluster take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Depth {
    /// Every request passes the API server.
    #[default]
    Full,
    /// The scheduler, against a model of everything else.
    Scheduler,
}

/// A cluster, its scheduler and what fails.
#[derive(Clone, Debug)]
pub struct Setup {
    pub seed: u64,
    pub depth: Depth,
    /// One template for each node, with the name of the node.
    pub templates: Vec<NodeTemplate>,
    /// Settings of the scheduler; its configuration is the policy.
    pub scheduler: Settings,
    pub failures: Vec<FailureModel>,
    /// Time that is added to every answer of the API server.
    pub api_delay: Duration,
    /// Time that a pull of an image takes, if it is not the default of the nodes.
    pub image_pull: Option<Duration>,
    /// Virtual time at which the trial ends at the latest.
    pub until: Option<Duration>,
}

/// A pod that a user creates at some time.
#[derive(Clone, Debug)]
pub struct Submission {
    /// Time since the beginning of the run.
    pub at: Duration,
    pub pod: Value,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 1,
            depth: Depth::Full,
            templates: Vec::new(),
            scheduler: options::defaults(),
            failures: Vec::new(),
            api_delay: Duration::ZERO,
            image_pull: None,
            until: None,
        }
    }
}

impl Setup {
    /// Returns the settings of the scheduler. It runs alone, so it elects no leader.
    pub(super) fn scheduler(&self) -> Settings {
        let mut settings = self.scheduler.clone();
        settings.leader_election.leader_elect = false;
        settings
    }

    pub(super) fn controllers(&self, root_ca_pem: String) -> controller_manager::Settings {
        let mut settings = controller_manager::Settings { root_ca_pem: Some(root_ca_pem), ..Default::default() };
        settings.leader_election.leader_elect = false;
        settings.endpoints.endpoint_updates_batch_period = BATCH;
        settings.endpoints.endpointslice_updates_batch_period = BATCH;
        // The range of a cluster has room for few nodes; these take addresses of a larger one themselves.
        settings.allocate_node_cidrs = false;
        if self.failures.is_empty() {
            settings.node_monitor_grace_period = CALM_GRACE;
            settings.node_startup_grace_period = CALM_GRACE;
            settings.node_monitor_period = CALM_REPORT;
        }
        settings
    }

    pub(super) fn nodes(&self) -> kubelet_sim::Settings {
        let mut settings = kubelet_sim::Settings {
            templates: self.templates.clone(),
            failure_models: self.failures.clone(),
            // What a machine has and does not reserve is for pods.
            eviction_hard: Vec::new(),
            ..kubelet_sim::Settings::default()
        };
        if let Some(image_pull) = self.image_pull {
            settings.latency.image_pull = image_pull;
        }
        if self.failures.is_empty() {
            settings.node_lease_duration = CALM_LEASE;
            settings.node_status_update_frequency = CALM_REPORT;
            settings.node_status_report_frequency = CALM_REPORT;
        }
        settings
    }
}
