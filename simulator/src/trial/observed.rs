//! `Observer`: says what has happened to pods and nodes, from what is written to the store. Pure.
//!
//! Of a node or pod that is new it knows the name alone. Whoever has drawn the workload adds the rest.

use super::pod_state::{PodState, RUN_FOR};
use experiments::record::{Event, NodeAdded, PodCreated};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Reason of the condition `DisruptionTarget` of pods that are preempted.
const PREEMPTED: &str = "PreemptionByScheduler";

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
    is_of_deployment: bool,
    exists: bool,
    stage: Stage,
    is_lost: bool,
    last_failure: String,
}

fn added(node: String) -> Event {
    Event::NodeAdded(NodeAdded { node, ..NodeAdded::default() })
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
    pub fn begin(&self) -> Vec<Event> {
        self.ready.iter().map(|node| added(node.clone())).collect()
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

    /// Takes a write to a node.
    pub fn see_node(&mut self, node: &str, is_ready: bool) -> Option<Event> {
        let node = node.to_owned();
        match is_ready {
            true => self.ready.insert(node.clone()).then(|| added(node)),
            false => self.ready.remove(&node).then_some(Event::NodeRemoved { node }),
        }
    }

    /// Takes a write to a pod; `None` deletes it. Returns what has happened, and a pod that is to be created again.
    pub fn see_pod(&mut self, pod: &str, state: Option<&PodState>) -> (Vec<Event>, Option<Value>) {
        if !self.pods.contains_key(pod) {
            self.pods.insert(pod.to_owned(), Observed::default());
        }
        let Some(known) = self.pods.get_mut(pod) else { return (Vec::new(), None) };
        let name = || pod.to_owned();
        let was_running_on = known.has_end && matches!(known.stage, Stage::Bound | Stage::Started);
        let (mut found, mut again) = (Vec::new(), None);
        let Some(state) = state else {
            known.exists = false;
            if known.stage != Stage::Finished {
                found.push(Event::PodDeleted { pod: name() });
                again.clone_from(&known.written);
                (known.stage, known.is_lost) = (Stage::Pending, false);
                known.last_failure.clear();
            }
            self.to_finish -= usize::from(was_running_on);
            if known.is_of_deployment {
                // Another one comes in its place, under another name.
                self.pods.remove(pod);
            }
            return (found, again);
        };
        if !known.exists {
            known.exists = true;
            known.has_end |= state.has_end;
            known.is_of_deployment = state.deployment.is_some();
            let deployment = state.deployment.clone();
            found.push(Event::PodCreated(PodCreated { pod: name(), deployment, ..PodCreated::default() }));
        }
        if let Some(message) = &state.unscheduled
            && known.stage == Stage::Pending
            && known.last_failure != *message
        {
            known.last_failure.clone_from(message);
            found.push(Event::AttemptFailed { pod: name(), reason: message.clone() });
        }
        if let Some(node) = &state.node
            && known.stage == Stage::Pending
        {
            known.stage = Stage::Bound;
            found.push(Event::PodScheduled {
                pod: name(),
                node: node.clone(),
                gpus: state.gpus.clone(),
                decided_us: None,
            });
        }
        let has_ended = matches!(state.phase.as_str(), "Succeeded" | "Failed");
        if known.stage == Stage::Bound && matches!(state.phase.as_str(), "Running" | "Succeeded") {
            known.stage = Stage::Started;
            found.push(Event::PodStarted { pod: name() });
        }
        if let Some(reason) = &state.disrupted
            && !known.is_lost
            && known.stage != Stage::Finished
        {
            known.is_lost = true;
            found.push(match reason.as_str() {
                PREEMPTED => Event::PodPreempted { pod: name(), by: String::new() },
                reason => Event::PodEvicted { pod: name(), reason: reason.to_owned() },
            });
        }
        // A pod that loses its node ends too, but its work is not done.
        if has_ended && known.stage != Stage::Finished && !known.is_lost && !state.is_leaving {
            known.stage = Stage::Finished;
            known.written = None;
            self.finished += 1;
            found.push(Event::PodFinished { pod: name(), succeeded: state.phase == "Succeeded" });
        }
        let is_running_on = known.has_end && matches!(known.stage, Stage::Bound | Stage::Started);
        self.to_finish = self.to_finish + usize::from(is_running_on) - usize::from(was_running_on);
        (found, again)
    }
}
