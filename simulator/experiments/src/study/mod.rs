//! The study: one file that says what is compared. It is the product of clusters, workloads, policies, faults and seeds;
//! each combination is a cell, which is run by itself.

pub mod values;
pub mod schema;
pub mod reward;
pub mod deployments;
pub mod external;
mod cells;
mod read;
#[cfg(test)]
mod tests;

pub use cells::Cell;
pub use deployments::{Autoscaler, Deployment, DiurnalLoad, Load, LoadFile, LoadStep};
pub use external::External;
pub use read::{Draft, read};
pub use reward::{Reward, Term};
pub use values::{Amount, Rate, Span};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// An annotated study, for `orrery sim init`.
pub const EXAMPLE: &str = include_str!("example.yaml");

pub const API_VERSION: &str = "orrery.dev/v1alpha1";
pub const KIND: &str = "Study";

/// What is compared, and on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Study {
    /// `orrery.dev/v1alpha1`.
    pub api_version: String,
    /// `Study`.
    pub kind: String,
    /// Name of the study, which is also the name of its folder of results.
    pub name: String,
    #[serde(default)]
    pub description: String,
    /// Which parts of the control plane take part.
    #[serde(default)]
    pub depth: Depth,
    /// Controllers that run, as of `--controllers`: `["*", "-podgc"]` is all that are on by default but one. All by default.
    #[serde(default)]
    pub controllers: Vec<String>,
    /// Feature gates of the API server, the controllers and the schedulers, with true or false.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
    pub clusters: Vec<Cluster>,
    pub workloads: Vec<Workload>,
    pub policies: Vec<Policy>,
    /// What fails. Without any, one case named `none`, in which nothing does.
    #[serde(default)]
    pub faults: Vec<Faults>,
    /// Seeds of the runs, as a list or as a range such as `1..10`, both ends included.
    #[serde(default)]
    pub seeds: Seeds,
    /// Virtual time between two samples of the cluster's state; a minute by default.
    #[serde(default)]
    pub sample_every: Option<Span>,
    /// Virtual time at which a run ends, even if pods have not finished. Otherwise it ends with its last pod.
    #[serde(default)]
    pub until: Option<Span>,
    /// What is written beside the records that metrics need.
    #[serde(default)]
    pub records: Records,
    /// Metrics of the report, by name; all if empty.
    #[serde(default)]
    pub metrics: Vec<String>,
    /// Reward of an agent that learns, a sum of weighted parts. Without any it is `pending` with weight -1.
    #[serde(default)]
    pub reward: Vec<Reward>,
}

/// Depth of a simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Depth {
    /// Every request passes the API server.
    #[default]
    Full,
    /// Queue, cache, framework and binding of the scheduler, against a modelled API.
    Scheduler,
}

/// What is written beside the records that metrics need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Records {
    #[serde(default)]
    pub decisions: DecisionRecords,
}

/// What is written of the scheduler's decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum DecisionRecords {
    /// A row for each attempt, in `decisions.parquet`.
    #[default]
    Attempts,
    /// In `verdicts.parquet` also a row for each plugin and node. Such files are large, and runs take several times as long.
    Plugins,
}

/// Seeds, as a list or as a range.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Seeds(pub Vec<u64>);

impl Default for Seeds {
    fn default() -> Self {
        Self(vec![1])
    }
}

/// A cluster, by exactly one of `nodes`, `openbNodes` and `kubectlNodes`, or by `nodeGroups`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    pub name: String,
    /// Templates of nodes.
    #[serde(default)]
    pub nodes: Vec<NodeGroup>,
    /// A list of nodes of Alibaba's GPU trace of 2023 (OpenB): columns `sn,cpu_milli,memory_mib,gpu,model`.
    #[serde(default)]
    pub openb_nodes: Option<NodeFile>,
    /// The output of `kubectl get nodes -o yaml` or `-o json`.
    #[serde(default)]
    pub kubectl_nodes: Option<NodeFile>,
    /// Nodes that an autoscaler orders when pods find no place, and gives back when they are idle.
    #[serde(default)]
    pub node_groups: Vec<AutoscaledGroup>,
}

/// Alike nodes, as many as pods need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AutoscaledGroup {
    /// What each node is, with its price. Without `count`.
    pub template: NodeGroup,
    /// Nodes that are there from the start, and that stay; none by default.
    #[serde(default)]
    pub min: Option<u32>,
    /// Most nodes.
    pub max: u32,
    /// Time between the order of a node and its start; none by default.
    #[serde(default)]
    pub provision_delay: Option<Span>,
    /// Time without a pod after which a node leaves; ten minutes by default, as in the Cluster Autoscaler.
    #[serde(default)]
    pub scale_down_after: Option<Span>,
}

/// A file with nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeFile {
    /// Path relative to the study.
    pub file: String,
    /// Only the first nodes of the file.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Power of each node, because these files do not say it.
    #[serde(default)]
    pub power: Option<Power>,
    /// Price of an hour of each node.
    #[serde(default)]
    pub price_per_hour: Option<f64>,
}

/// Nodes of one kind. The fields are those of `orrery up --node-template`, and `gpus` and `power`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroup {
    pub name: String,
    /// Number of nodes; one by default.
    #[serde(default)]
    pub count: Option<u32>,
    /// Zones, in turn.
    #[serde(default)]
    pub zones: Vec<String>,
    pub capacity: BTreeMap<String, Amount>,
    /// What pods cannot have of the capacity.
    #[serde(default)]
    pub reserved: BTreeMap<String, Amount>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    #[serde(default)]
    pub taints: Vec<Taint>,
    #[serde(default)]
    pub price_per_hour: Option<f64>,
    #[serde(default)]
    pub gpus: Option<NodeGpus>,
    #[serde(default)]
    pub power: Option<Power>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    #[serde(default)]
    pub value: String,
    pub effect: String,
}

/// GPUs of a node, which pods may share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGpus {
    pub count: u32,
    #[serde(default)]
    pub model: String,
}

/// Power of a node in watts: a linear model between idle and full, for the CPU and for each GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Power {
    #[serde(default)]
    pub idle_w: f64,
    #[serde(default)]
    pub full_w: f64,
    #[serde(default)]
    pub gpu_idle_w: f64,
    #[serde(default)]
    pub gpu_full_w: f64,
}

/// Pods and when they arrive, by exactly one of `generate`, `openbPods`, `csv` and `kubectlPods`, or by `deployments`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// Pods drawn from distributions.
    #[serde(default)]
    pub generate: Option<Generate>,
    /// A list of pods of Alibaba's GPU trace of 2023 (OpenB).
    #[serde(default)]
    pub openb_pods: Option<PodFile>,
    /// Any table of jobs, with a map of its columns.
    #[serde(default)]
    pub csv: Option<CsvPods>,
    /// The output of `kubectl get pods -o yaml` or `-o json`.
    #[serde(default)]
    pub kubectl_pods: Option<PodFile>,
    /// Deployments that serve a load, beside the pods or alone. They have no end, so the study needs `until`.
    #[serde(default)]
    pub deployments: Vec<Deployment>,
    /// Arrivals come this many times as fast: 2 halves the time between them.
    #[serde(default)]
    pub arrival_scale: Option<f64>,
    /// Durations are this many times as long.
    #[serde(default)]
    pub duration_scale: Option<f64>,
    /// Only the first pods.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Only pods that arrive from this time on; it becomes the beginning.
    #[serde(default)]
    pub from: Option<Span>,
    /// Only pods that arrive before this time.
    #[serde(default)]
    pub until: Option<Span>,
    /// Makes each gang a PodGroup, whose pods the scheduler places all at once or not at all. Otherwise a gang is pods with a
    /// label, which the plugin `Gang` of a policy knows.
    #[serde(default)]
    pub pod_groups: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodFile {
    /// Path relative to the study.
    pub file: String,
}

/// A table whose columns have other names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CsvPods {
    /// Path relative to the study.
    pub file: String,
    pub columns: Columns,
    /// Unit of the columns with times: `us`, `ms`, `s`, `m` or `h`; `s` by default. `timestamp` for dates of RFC 3339 or
    /// `2017-10-03 12:34:56`.
    #[serde(default)]
    pub time_unit: Option<String>,
    /// What one unit of the column `cpu` stands for, such as `1` for cores or `1m`.
    #[serde(default)]
    pub cpu_unit: Option<Amount>,
    /// What one unit of the column `memory` stands for, such as `1Mi`; with fractions of a machine, its size.
    #[serde(default)]
    pub memory_unit: Option<Amount>,
    /// What is done with a row in which a mapped column is empty; by default it is an error.
    #[serde(default)]
    pub gaps: Gaps,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub enum Gaps {
    #[default]
    Refuse,
    Skip,
}

/// Names of a table's columns. `arrival`, and one of `duration` and `end`, must be there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Columns {
    #[serde(default)]
    pub name: Option<String>,
    pub arrival: String,
    #[serde(default)]
    pub duration: Option<String>,
    /// When the pod has ended; the duration is the time since `start`, or since the arrival.
    #[serde(default)]
    pub end: Option<String>,
    #[serde(default)]
    pub start: Option<String>,
    #[serde(default)]
    pub cpu: Option<String>,
    #[serde(default)]
    pub memory: Option<String>,
    /// Number of GPUs.
    #[serde(default)]
    pub gpus: Option<String>,
    /// Thousandths that are needed of each GPU.
    #[serde(default)]
    pub gpu_milli: Option<String>,
    #[serde(default)]
    pub priority: Option<String>,
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub gang: Option<String>,
}

/// Pods drawn from distributions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Generate {
    /// Number of arrivals; a gang arrives as one.
    pub count: usize,
    pub arrivals: Arrivals,
    /// Kinds of pods, drawn by their weights.
    pub sizes: Vec<Size>,
}

/// Process of the arrivals, by exactly one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Arrivals {
    /// Independent arrivals at a rate.
    #[serde(default)]
    pub poisson: Option<Poisson>,
    /// A Poisson process whose rate changes at random times (Markov-modulated): quiet and busy phases.
    #[serde(default)]
    pub mmpp: Option<Mmpp>,
    /// A Poisson process whose rate follows a day.
    #[serde(default)]
    pub diurnal: Option<Diurnal>,
    /// Many pods at once, again and again.
    #[serde(default)]
    pub waves: Option<Waves>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Poisson {
    pub rate: Rate,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Mmpp {
    /// Phases that follow each other in turn.
    pub phases: Vec<Phase>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Phase {
    pub rate: Rate,
    /// Mean length of the phase, which is exponential.
    pub mean: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Diurnal {
    /// Mean rate of a period.
    pub rate: Rate,
    /// Part of the rate by which it rises and falls: 0 is a plain Poisson process, 1 falls to nothing.
    pub swing: f64,
    /// A day by default.
    #[serde(default)]
    pub period: Option<Span>,
    /// Time of the highest rate in each period.
    #[serde(default)]
    pub peak: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Waves {
    pub size: usize,
    pub every: Span,
    /// Time over which the pods of a wave are spread evenly; all at once by default.
    #[serde(default)]
    pub spread: Option<Span>,
}

/// A kind of pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Size {
    pub name: String,
    /// Share of this kind among the arrivals; 1 by default.
    #[serde(default)]
    pub weight: Option<f64>,
    pub requests: BTreeMap<String, Amount>,
    #[serde(default)]
    pub gpus: Option<PodGpus>,
    /// Time that a pod runs.
    pub duration: Distribution,
    #[serde(default)]
    pub priority: Option<i32>,
    /// Users who own such pods, in turn. Fairness is measured between users.
    #[serde(default)]
    pub users: Vec<String>,
    /// Pods of a gang, which start together; one by default.
    #[serde(default)]
    pub gang: Option<usize>,
    /// Fields of a PodSpec that are merged into each pod, such as `tolerations` or `affinity`.
    #[serde(default)]
    pub spec: Option<Value>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// GPUs of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGpus {
    pub count: u32,
    /// Thousandths of each GPU; 1000 by default, the whole.
    #[serde(default)]
    pub milli: Option<u32>,
    /// Models that will do; all if empty.
    #[serde(default)]
    pub models: Vec<String>,
}

/// Distribution of a span, by exactly one of its fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Distribution {
    #[serde(default)]
    pub constant: Option<Span>,
    #[serde(default)]
    pub exponential: Option<Exponential>,
    #[serde(default)]
    pub log_normal: Option<LogNormal>,
    #[serde(default)]
    pub pareto: Option<Pareto>,
    /// Longest span; longer ones are cut.
    #[serde(default)]
    pub max: Option<Span>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Exponential {
    pub mean: Span,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LogNormal {
    pub median: Span,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pareto {
    pub min: Span,
    /// Shape; the mean exists above 1.
    pub alpha: f64,
}

/// A way of scheduling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    pub name: String,
    /// A KubeSchedulerConfiguration; the default scheduler if absent.
    #[serde(default)]
    pub configuration: Option<Value>,
    /// A file with a KubeSchedulerConfiguration, in place of `configuration`.
    #[serde(default)]
    pub file: Option<String>,
    /// A scheduler of any make in real time, in place of `configuration`. Runs with it are not repeatable.
    #[serde(default)]
    pub external: Option<External>,
    /// Further schedulers, each by a KubeSchedulerConfiguration. They run beside the first for pods with their `schedulerName`.
    #[serde(default)]
    pub schedulers: Vec<Value>,
    /// Feature gates of the cells of this policy, beside those of the study, which they replace.
    #[serde(default)]
    pub feature_gates: BTreeMap<String, bool>,
}

/// What fails in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Faults {
    pub name: String,
    /// Failure models of machines, as in a file of `--failure-model`.
    #[serde(default)]
    pub machines: Vec<Value>,
    /// Time that is added to every answer of the API server.
    #[serde(default)]
    pub api_delay: Option<Span>,
    /// Time by which watch events come late.
    #[serde(default)]
    pub watch_delay: Option<Span>,
    /// Time that a pull of an image takes.
    #[serde(default)]
    pub image_pull: Option<Span>,
}
