//! The structured event of a run. A run is a file of JSON lines, one record a line, in the order of virtual time; metrics
//! are computed from it alone.

use crate::amounts::Amounts;
use crate::cluster::Machine;
use crate::problem::Problem;
use crate::study::Power;
use crate::units::micros_of;
use crate::workload::{Arrival, Deployment, PodFacts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One thing that has happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Virtual time since the beginning of the run, in microseconds.
    pub at_us: u64,
    #[serde(flatten)]
    pub event: Event,
}

/// What has happened. Pods are named `namespace/name`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    NodeAdded(NodeAdded),
    /// The node is gone, or does not answer any more.
    NodeRemoved {
        node: String,
    },
    PodCreated(PodCreated),
    /// A scheduling cycle found no place.
    AttemptFailed {
        pod: String,
        reason: String,
    },
    /// The pod is bound to a node.
    PodScheduled {
        pod: String,
        node: String,
        /// Places of the GPUs that the pod got, if the policy chose them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        gpus: Vec<u32>,
        /// When the scheduler took the pod from its queue for the attempt that has bound it. `None` if it is unknown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decided_us: Option<u64>,
    },
    /// All containers run.
    PodStarted {
        pod: String,
    },
    PodFinished {
        pod: String,
        succeeded: bool,
    },
    /// The scheduler deletes the pod in favour of another one.
    PodPreempted {
        pod: String,
        /// The pod in whose favour it is; empty if it is unknown.
        by: String,
    },
    /// The pod loses its node for another reason: an eviction, a taint, a node that vanishes.
    PodEvicted {
        pod: String,
        reason: String,
    },
    /// The pod object is gone before it has finished.
    PodDeleted {
        pod: String,
    },
    /// The users of a Deployment ask for another amount of CPU from now on.
    LoadChanged {
        deployment: String,
        /// In thousandths of a core.
        cpu_milli: i64,
    },
    /// Requests that the API server has answered since the beginning, by verb and resource: `create pods/binding`.
    RequestsAnswered {
        requests: BTreeMap<String, u64>,
    },
    /// The run has ended.
    Ended,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeAdded {
    pub node: String,
    pub group: String,
    /// CPU in thousandths, all others in units.
    pub allocatable: Amounts,
    pub gpu_count: u32,
    pub gpu_model: String,
    pub price_per_hour: f64,
    pub power: Power,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodCreated {
    pub pod: String,
    pub requests: Amounts,
    pub gpu_count: u32,
    /// Thousandths of each GPU.
    pub gpu_milli: u32,
    /// Models of GPUs that will do; all if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    pub user: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<String>,
    /// The Deployment that the pod is of, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<String>,
    /// Limit of the CPU of a Deployment's pod, which takes part in its load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_limit: Option<i64>,
    pub priority: i32,
    /// Time that the pod runs if nothing disturbs it; `None` if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<u64>,
}

impl Record {
    pub fn new(at: std::time::Duration, event: Event) -> Self {
        Self { at_us: micros_of(at), event }
    }

    /// Returns the line of the file, without its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a record is plain data")
    }
}

impl From<&Machine> for Event {
    fn from(machine: &Machine) -> Self {
        Self::NodeAdded(NodeAdded {
            node: machine.name.clone(),
            group: machine.group.clone(),
            allocatable: machine.allocatable.clone(),
            gpu_count: machine.gpu_count,
            gpu_model: machine.gpu_model.clone(),
            price_per_hour: machine.price_per_hour,
            power: machine.power,
        })
    }
}

impl PodCreated {
    /// Returns what a study knows of a pod of this name.
    fn of(pod: String, facts: &PodFacts) -> Self {
        let facts = facts.clone();
        Self {
            pod,
            requests: facts.requests,
            gpu_count: facts.gpu_count,
            gpu_milli: facts.gpu_milli,
            gpu_models: facts.gpu_models,
            user: facts.user,
            gang: facts.gang,
            deployment: None,
            cpu_limit: None,
            priority: facts.priority,
            duration_us: None,
        }
    }

    /// Returns what a study knows of a pod that a Deployment has made.
    pub fn of_deployment(pod: String, deployment: &Deployment) -> Self {
        Self {
            deployment: Some(deployment.name.clone()),
            cpu_limit: deployment.cpu_limit_milli,
            ..Self::of(pod, &deployment.facts)
        }
    }
}

impl From<&Arrival> for Event {
    fn from(arrival: &Arrival) -> Self {
        let metadata = &arrival.pod.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        let pod = format!("{namespace}/{}", metadata.name.as_deref().unwrap_or_default());
        let duration_us = arrival.duration.map(micros_of);
        Self::PodCreated(PodCreated { duration_us, ..PodCreated::of(pod, &arrival.facts) })
    }
}

/// Reads the lines of a file. A mistake is reported with its line: a line that is no record, and time that runs backwards.
pub fn read(text: &str, file: &str) -> Result<Vec<Record>, Vec<Problem>> {
    let (mut records, mut problems, mut latest_us) = (Vec::new(), Vec::new(), 0);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let place = format!("{file}:{}", index + 1);
        match serde_json::from_str::<Record>(line) {
            Err(error) => problems.push(Problem::new(place, error.to_string())),
            Ok(record) if record.at_us < latest_us => {
                problems.push(Problem::new(place, format!("at_us: {} is before {latest_us}", record.at_us)));
            }
            Ok(record) => {
                latest_us = record.at_us;
                records.push(record);
            }
        }
    }
    if problems.is_empty() { Ok(records) } else { Err(problems) }
}
