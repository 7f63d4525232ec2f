//! `Setup`: what a trial runs on.

use super::decision_log::Detail;
use super::gangs;
use component_base::options;
use component_base::options::feature_gates::GateValues;
use experiments::workload::Deployment;
use experiments::workload::priority::SYSTEM_PRIORITIES;
use kubelet_sim::machines::failure_model::FailureModel;
use kubelet_sim::template::NodeTemplate;
use scheduler::Settings;
use scheduler::framework::Features;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::Duration;

/// Returns the priority class of pods with a priority. Every cluster has those of the system; the others are made.
pub fn priority_class(priority: i64) -> String {
    let of_system = SYSTEM_PRIORITIES.iter().find(|(_, of_system)| i64::from(*of_system) == priority);
    of_system.map_or_else(|| format!("priority-{priority}"), |(name, _)| (*name).to_owned())
}

/// Returns true for the priority of a class that every cluster has.
pub fn is_of_system(priority: i64) -> bool {
    SYSTEM_PRIORITIES.iter().any(|(_, of_system)| i64::from(*of_system) == priority)
}

/// Validity of the leases of machines that cannot fail; they are renewed at a quarter of it. Without failures a heartbeat tells
/// nothing, and the heartbeats of thousands of nodes would be most of a run's requests.
const CALM_LEASE: Duration = Duration::from_secs(4 * 24 * 3600);
/// How often something is looked for that does not happen: a changed status of such a machine, for example. And how often a
/// status that has not changed is reported.
const CALM_UPDATE: Duration = Duration::from_secs(3600);
const CALM_REPORT: Duration = Duration::from_secs(24 * 3600);
/// How often the control plane looks at such nodes, and the time without a heartbeat after which one would count as lost.
const CALM_MONITOR: Duration = Duration::from_secs(3600);
const CALM_GRACE: Duration = Duration::from_secs(30 * 24 * 3600);
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
    /// Nodes that an autoscaler orders and gives back.
    pub groups: Vec<NodeGroup>,
    /// Deployments that exist from the beginning and serve a load. A trial with some ends at `until`.
    pub deployments: Vec<Deployment>,
    /// Settings of the scheduler; its configuration is the policy.
    pub scheduler: Settings,
    /// Whether the pods have a scheduler outside the simulation. `scheduler` does not run then.
    pub is_scheduled_from_outside: bool,
    /// Further schedulers, for pods with their names.
    pub more_schedulers: Vec<Settings>,
    /// Feature gates of the API server, the controllers and the schedulers.
    pub feature_gates: GateValues,
    pub failures: Vec<FailureModel>,
    /// Time that is added to every answer of the API server.
    pub api_delay: Duration,
    /// Time by which watch events come late to components.
    pub watch_delay: Duration,
    /// Controllers that run, as of `--controllers`; those that are on by default if empty.
    pub controllers: Vec<String>,
    /// Whether Events are kept, for those who look at the cluster.
    pub keeps_events: bool,
    /// Time that a pull of an image takes, if it is not the default of the nodes.
    pub image_pull: Option<Duration>,
    /// What the audience is told of each attempt of the scheduler; nothing if `None`.
    pub decisions: Option<Detail>,
    /// Returns the CPU time of the thread. It is measured and told, and decides nothing.
    pub cpu_clock: Option<fn() -> Duration>,
    /// Virtual time at which the trial ends at the latest.
    pub until: Option<Duration>,
}

/// Alike nodes that come and go.
#[derive(Clone, Debug)]
pub struct NodeGroup {
    /// A template for each node that the group may have, as a document. The first `min` are there from the start.
    pub nodes: Vec<Value>,
    pub min: usize,
    pub price_per_hour: f64,
    /// Time between the order of a node and its start.
    pub provision_delay: Duration,
    /// Time without a pod after which a node leaves.
    pub scale_down_after: Duration,
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
            groups: Vec::new(),
            deployments: Vec::new(),
            scheduler: options::defaults(),
            is_scheduled_from_outside: false,
            more_schedulers: Vec::new(),
            feature_gates: GateValues::new(),
            failures: Vec::new(),
            api_delay: Duration::ZERO,
            watch_delay: Duration::ZERO,
            controllers: Vec::new(),
            keeps_events: false,
            image_pull: None,
            decisions: None,
            cpu_clock: None,
            until: None,
        }
    }
}

impl Setup {
    /// Adds the nodes of groups that are there from the start.
    pub(super) fn add_first_of_groups(&mut self) -> Result<(), String> {
        for document in self.groups.iter().flat_map(|group| group.nodes.iter().take(group.min)) {
            self.templates.push(read_template(document)?);
        }
        Ok(())
    }

    /// Returns the names of the nodes that are there from the start.
    pub(super) fn node_names(&self) -> BTreeSet<String> {
        self.templates.iter().map(|template| template.node_name.clone()).collect()
    }

    /// Returns the settings of the scheduler. It runs alone, so it elects no leader.
    pub(super) fn scheduler(&self) -> Settings {
        self.with_gates(&self.scheduler, false)
    }

    fn with_gates(&self, settings: &Settings, has_gangs: bool) -> Settings {
        let mut settings = settings.clone();
        settings.leader_election.leader_elect = false;
        let features = Features::of(&gangs::with_gates(&self.feature_gates, has_gangs));
        settings.configuration = settings.configuration.with_features(features);
        settings
    }

    /// Returns the settings of all schedulers that run in a whole control plane.
    pub(super) fn schedulers(&self, has_gangs: bool) -> Vec<Settings> {
        let first = (!self.is_scheduled_from_outside).then_some(&self.scheduler);
        let all = first.into_iter().chain(&self.more_schedulers);
        all.map(|settings| self.with_gates(settings, has_gangs)).collect()
    }

    pub(super) fn controllers(&self, root_ca_pem: String) -> controller_manager::Settings {
        let mut settings = controller_manager::Settings { root_ca_pem: Some(root_ca_pem), ..Default::default() };
        settings.leader_election.leader_elect = false;
        if !self.controllers.is_empty() {
            settings.controllers.clone_from(&self.controllers);
        }
        settings.endpoints.endpoint_updates_batch_period = BATCH;
        settings.endpoints.endpointslice_updates_batch_period = BATCH;
        // The range of a cluster has room for few nodes; these take addresses of a larger one themselves.
        settings.allocate_node_cidrs = false;
        if self.failures.is_empty() {
            settings.node_monitor_grace_period = CALM_GRACE;
            settings.node_startup_grace_period = CALM_GRACE;
            settings.node_monitor_period = CALM_MONITOR;
        }
        settings
    }

    pub(super) fn nodes(&self) -> kubelet_sim::Settings {
        let mut settings = kubelet_sim::Settings {
            templates: self.templates.clone(),
            // Without templates there are none, until nodes of groups join.
            nodes: 0,
            failure_models: self.failures.clone(),
            // What a machine has and does not reserve is for pods.
            eviction_hard: Vec::new(),
            ..kubelet_sim::Settings::default()
        };
        if !self.keeps_events {
            settings.stages_poll = CALM_UPDATE; // only who looks at the cluster could create some
        }
        if let Some(image_pull) = self.image_pull {
            settings.latency.image_pull = image_pull;
        }
        if self.failures.is_empty() {
            settings.node_lease_duration = CALM_LEASE;
            settings.node_status_update_frequency = CALM_UPDATE;
            settings.node_status_report_frequency = CALM_REPORT;
        }
        settings
    }
}

/// Reads the template of a node.
pub(super) fn read_template(document: &Value) -> Result<NodeTemplate, String> {
    NodeTemplate::read(document).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("node {}: {}", document["name"], problems.join("; "))
    })
}
