//! The Deployments of a workload: pods that serve a load, as many as their autoscaler wants.

use crate::study::{Amount, PodGpus, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A Deployment whose pods share a load, from the beginning of the run to its end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deployment {
    pub name: String,
    /// Requests of each pod.
    pub requests: BTreeMap<String, Amount>,
    /// Limit of each pod's CPU. A pod never uses more; without a limit it uses its part of the load.
    #[serde(default)]
    pub cpu_limit: Option<Amount>,
    #[serde(default)]
    pub gpus: Option<PodGpus>,
    /// Pods at the beginning; by default the autoscaler's `min`, or one.
    #[serde(default)]
    pub replicas: Option<u32>,
    /// A HorizontalPodAutoscaler; without it the number of pods stays.
    #[serde(default)]
    pub autoscaler: Option<Autoscaler>,
    pub load: Load,
    #[serde(default)]
    pub priority: Option<i32>,
    #[serde(default)]
    pub user: Option<String>,
    /// Fields of a PodSpec that are merged into each pod, such as `tolerations` or `affinity`.
    #[serde(default)]
    pub spec: Option<Value>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// A HorizontalPodAutoscaler that follows the pods' CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Autoscaler {
    /// Fewest pods; one by default.
    #[serde(default)]
    pub min: Option<u32>,
    /// Most pods.
    pub max: u32,
    /// Mean usage of CPU at which it aims, in percent of what the pods request.
    pub cpu_utilization: u32,
    /// The field `behavior` of a HorizontalPodAutoscaler.
    #[serde(default)]
    pub behavior: Option<Value>,
}

/// CPU that the users of a Deployment ask for, by exactly one of `steps`, `diurnal` and `csv`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Load {
    /// Loads in the order of their times, each until the next one. Before the first there is none.
    #[serde(default)]
    pub steps: Vec<LoadStep>,
    /// A load that follows a day.
    #[serde(default)]
    pub diurnal: Option<DiurnalLoad>,
    /// A load that was measured: a table with a row for each change. The last one stays until the end.
    #[serde(default)]
    pub csv: Option<LoadFile>,
    /// Standard deviation of a factor around 1 that is drawn each minute; none by default, so that all seeds have the same load.
    #[serde(default)]
    pub noise: Option<f64>,
}

/// A table of times and loads, in the order of the times.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadFile {
    /// Path relative to the study.
    pub file: String,
    #[serde(default)]
    pub columns: LoadColumns,
    /// Unit of the times: `us`, `ms`, `s`, `m` or `h`; `s` by default. `timestamp` for dates of RFC 3339 or `2017-10-03 12:34:56`, of
    /// which the first is the beginning.
    #[serde(default)]
    pub time_unit: Option<String>,
    /// What one unit of the load stands for: a core by default, or for example `20m` if the column counts requests that take so much.
    #[serde(default)]
    pub cpu_unit: Option<Amount>,
}

/// Names of a table's columns; `time` and `cpu` by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadColumns {
    #[serde(default)]
    pub time: Option<String>,
    #[serde(default)]
    pub cpu: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LoadStep {
    pub at: Span,
    pub cpu: Amount,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DiurnalLoad {
    /// Mean of a period.
    pub cpu: Amount,
    /// Part of the load by which it rises and falls.
    pub swing: f64,
    /// A day by default.
    #[serde(default)]
    pub period: Option<Span>,
    /// Time of the highest load in each period.
    #[serde(default)]
    pub peak: Option<Span>,
}
