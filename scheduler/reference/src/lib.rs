//! The reference evaluator: a slow and simple scheduler, directly from the objects and the definitions.
//!
//! Tests, benchmarks and experiments compare the decisions of the scheduler with it. It has no caches and no counters that
//! outlive a decision, and shares no code with the plugins but the quantities of `proto`, the fields of objects in
//! `component-helpers`, and the language of device selectors. It borrows what it reads of the objects, so that a decision
//! costs one look at every pod and node.
//!
//! ```text
//!   Cluster::evaluate(pod, settings)   verdict of each node with plugin and reasons, scores, the best nodes
//!   Cluster::preempt(pod, settings)    victims on each node, and the nodes that cost the least
//!   Cluster::check(pod, settings, &decision)   everything that is wrong with a decision
//! ```
//!
//! Not there: claims whose devices a driver does not make ready in time, because the evaluator has no clock, and the errors of
//! expressions that fail. `Settings::unknown` names the plugins of a profile that the evaluator does not know.

// What there is.
mod cluster;
mod selector;
mod settings;

// One file for each kind of rule.
mod nodes;
mod resources;
mod volumes;
mod spread;
mod affinity;
mod devices;

// Decisions.
mod evaluation;
mod preemption;
mod check;

#[cfg(test)]
mod tests;

pub use check::Decision;
pub use cluster::{Cluster, Devices, Named, Slices, Storage, Workloads};
pub use evaluation::{Evaluation, PluginScores};
pub use preemption::{Candidate, Preemption};
pub use settings::Settings;

use proto::kinds::api::core::v1::{Node, Pod, PodSpec};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

pub type Labels = BTreeMap<String, String>;

/// The plugin that rejects a node, and its reasons.
#[derive(Clone, Debug, PartialEq)]
pub struct Rejection {
    pub plugin: &'static str,
    pub reasons: Vec<String>,
    /// True if the pod may fit once other pods have left the node.
    pub is_resolvable: bool,
}

impl Rejection {
    fn resolvable(plugin: &'static str, reason: &str) -> Self {
        Self { plugin, reasons: vec![reason.to_owned()], is_resolvable: true }
    }

    fn unresolvable(plugin: &'static str, reason: &str) -> Self {
        Self { plugin, reasons: vec![reason.to_owned()], is_resolvable: false }
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.reasons.join(", "), self.plugin)
    }
}

static NO_SPEC: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);
static NO_LABELS: Labels = Labels::new();

fn spec(pod: &Pod) -> &PodSpec {
    pod.spec.as_ref().unwrap_or(&NO_SPEC)
}

fn labels(pod: &Pod) -> &Labels {
    pod.metadata.labels.as_ref().unwrap_or(&NO_LABELS)
}

fn label<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.labels.as_ref()?.get(key).map(String::as_str)
}
