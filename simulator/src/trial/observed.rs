//! `Observer`: says what has happened to pods and nodes, from what is written to the store. Pure.

use component_helpers::gpu_sharing::{GPU_INDEX, parse_places};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Prefixes of the keys that are observed.
pub const PODS: &str = "/registry/pods/";
pub const NODES: &str = "/registry/minions/";

/// Annotation with the time that containers run. A pod without it has no end.
const RUN_FOR: &str = "orrery.dev/run-for";
/// Reason of the condition `DisruptionTarget` of pods that are preempted.
const PREEMPTED: &str = "PreemptionByScheduler";

/// What has happened. Pods are named `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    NodeAdded {
        node: String,
    },
    /// The node is gone, or is not ready any more.
    NodeRemoved {
        node: String,
    },
    PodCreated {
        pod: String,
    },
    /// A scheduling cycle found no place.
    AttemptFailed {
        pod: String,
        reason: String,
    },
    PodScheduled {
        pod: String,
        node: String,
        /// Places of the GPUs that the policy has chosen.
        gpus: Vec<u32>,
    },
    /// All containers run.
    PodStarted {
        pod: String,
    },
    PodFinished {
        pod: String,
        succeeded: bool,
    },
    PodPreempted {
        pod: String,
    },
    PodEvicted {
        pod: String,
        reason: String,
    },
    /// The pod is gone before it has finished.
    PodDeleted {
        pod: String,
    },
    Ended,
}

/// How far the life of a pod is. The order is that of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Pending,
    Bound,
    Started,
    Finished,
}

#[derive(Clone, Debug, Default)]
struct Observed {
    /// The pod as its user wrote it, until it has finished.
    written: Option<Value>,
    has_end: bool,
    exists: bool,
    stage: Stage,
    is_lost: bool,
    last_failure: String,
}

/// What is known of pods and nodes.
#[derive(Debug, Default)]
pub struct Observer {
    pods: BTreeMap<String, Observed>,
    ready: BTreeSet<String>,
    nodes: usize,
    finished: usize,
    /// Pods that are bound, have an end and have not finished.
    to_finish: usize,
}

impl Observer {
    /// Knows nodes that are ready.
    pub fn new(ready: BTreeSet<String>) -> Self {
        Self { nodes: ready.len(), ready, ..Self::default() }
    }

    /// Returns what had happened before.
    pub fn begin(&self) -> Vec<Happening> {
        self.ready.iter().map(|node| Happening::NodeAdded { node: node.clone() }).collect()
    }

    /// Notes a pod that a user has created, so that it can be created again.
    pub fn remember(&mut self, pod: &Value) {
        let text = |field: &str| pod["metadata"][field].as_str();
        let name = format!("{}/{}", text("namespace").unwrap_or("default"), text("name").unwrap_or_default());
        let known = self.pods.entry(name).or_default();
        known.has_end = pod["metadata"]["annotations"][RUN_FOR].is_string();
        known.written = Some(pod.clone());
    }

    pub fn finished(&self) -> usize {
        self.finished
    }

    pub fn unfinished(&self) -> usize {
        self.pods.len() - self.finished
    }

    pub fn to_finish(&self) -> usize {
        self.to_finish
    }

    pub fn lacks_nodes(&self) -> bool {
        self.ready.len() < self.nodes
    }

    /// Takes a write to a key; `None` deletes it. Returns what has happened, and a pod that is to be created again.
    pub fn see(&mut self, key: &str, value: Option<&Value>) -> (Vec<Happening>, Option<Value>) {
        if let Some(node) = key.strip_prefix(NODES) {
            return (self.see_node(node, value).into_iter().collect(), None);
        }
        match key.strip_prefix(PODS) {
            Some(pod) => self.see_pod(pod, value),
            None => (Vec::new(), None),
        }
    }

    fn see_node(&mut self, node: &str, value: Option<&Value>) -> Option<Happening> {
        let is_ready =
            value.is_some_and(|node| condition(node, "Ready").is_some_and(|ready| ready["status"] == "True"));
        let node = node.to_owned();
        match is_ready {
            true => self.ready.insert(node.clone()).then_some(Happening::NodeAdded { node }),
            false => self.ready.remove(&node).then_some(Happening::NodeRemoved { node }),
        }
    }

    fn see_pod(&mut self, pod: &str, value: Option<&Value>) -> (Vec<Happening>, Option<Value>) {
        let known = self.pods.entry(pod.to_owned()).or_default();
        let name = || pod.to_owned();
        let was_running_on = known.has_end && matches!(known.stage, Stage::Bound | Stage::Started);
        let (mut found, mut again) = (Vec::new(), None);
        let Some(value) = value else {
            known.exists = false;
            if known.stage != Stage::Finished {
                found.push(Happening::PodDeleted { pod: name() });
                again.clone_from(&known.written);
                (known.stage, known.is_lost) = (Stage::Pending, false);
                known.last_failure.clear();
            }
            self.to_finish -= usize::from(was_running_on);
            return (found, again);
        };
        if !known.exists {
            known.exists = true;
            known.has_end |= value["metadata"]["annotations"][RUN_FOR].is_string();
            found.push(Happening::PodCreated { pod: name() });
        }
        if let Some(scheduled) = condition(value, "PodScheduled")
            && scheduled["status"] == "False"
            && known.stage == Stage::Pending
        {
            let message = scheduled["message"].as_str().unwrap_or_default();
            if known.last_failure != message {
                message.clone_into(&mut known.last_failure);
                found.push(Happening::AttemptFailed { pod: name(), reason: message.to_owned() });
            }
        }
        if let Some(node) = value["spec"]["nodeName"].as_str()
            && known.stage == Stage::Pending
        {
            known.stage = Stage::Bound;
            let chosen = value["metadata"]["annotations"][GPU_INDEX].as_str().unwrap_or_default();
            let gpus = parse_places(chosen).into_iter().filter_map(|place| u32::try_from(place).ok()).collect();
            found.push(Happening::PodScheduled { pod: name(), node: node.to_owned(), gpus });
        }
        let phase = value["status"]["phase"].as_str().unwrap_or_default();
        let has_ended = matches!(phase, "Succeeded" | "Failed");
        if known.stage == Stage::Bound && (phase == "Running" || phase == "Succeeded") {
            known.stage = Stage::Started;
            found.push(Happening::PodStarted { pod: name() });
        }
        if let Some(disrupted) = condition(value, "DisruptionTarget")
            && disrupted["status"] == "True"
            && !known.is_lost
            && known.stage != Stage::Finished
        {
            known.is_lost = true;
            found.push(match disrupted["reason"].as_str().unwrap_or_default() {
                PREEMPTED => Happening::PodPreempted { pod: name() },
                reason => Happening::PodEvicted { pod: name(), reason: reason.to_owned() },
            });
        }
        // A pod that loses its node ends too, but its work is not done.
        let is_leaving = !value["metadata"]["deletionTimestamp"].is_null();
        if has_ended && known.stage != Stage::Finished && !known.is_lost && !is_leaving {
            known.stage = Stage::Finished;
            known.written = None;
            self.finished += 1;
            found.push(Happening::PodFinished { pod: name(), succeeded: phase == "Succeeded" });
        }
        let is_running_on = known.has_end && matches!(known.stage, Stage::Bound | Stage::Started);
        self.to_finish = self.to_finish + usize::from(is_running_on) - usize::from(was_running_on);
        (found, again)
    }
}

fn condition<'v>(object: &'v Value, of_type: &str) -> Option<&'v Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == of_type)
}
