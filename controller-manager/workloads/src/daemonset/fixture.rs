//! Builds the small objects that this folder's tests use: DaemonSets, their pods, nodes with taints, whole rounds.
//!
//! Corresponds to newDaemonSet, newNode and newPod in pkg/controller/daemon/daemon_controller_test.go.

use super::daemon_pod;
use super::observe::Observed;
use crate::controller_revision::{CONTROLLER_REVISION_HASH, data_of};
use controller_base::controller_ref::{Claims, controller_ref};
use controller_base::fixture;
use proto::kinds::api::apps::v1::{
    ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet,
};
use proto::kinds::api::core::v1::{Node, Pod, Taint};
use proto::kinds::apimachinery::runtime::RawExtension;
use proto::kinds::metav1::LabelSelector;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns a DaemonSet that updates one node after another.
pub fn daemon_set(name: &str, image: &str) -> DaemonSet {
    let selector = LabelSelector { match_labels: Some(fixture::labels(&[("app", "web")])), ..LabelSelector::default() };
    let spec = DaemonSetSpec {
        selector,
        template: fixture::template(image),
        revision_history_limit: Some(10),
        ..DaemonSetSpec::default()
    };
    let mut set = DaemonSet { metadata: fixture::meta(name), spec: Some(spec), status: None };
    roll(&mut set, "1", "0");
    set
}

/// Gives a DaemonSet the strategy RollingUpdate.
pub fn roll(set: &mut DaemonSet, max_unavailable: &str, max_surge: &str) {
    let rolling = RollingUpdateDaemonSet {
        max_unavailable: Some(fixture::int_or_percent(max_unavailable)),
        max_surge: Some(fixture::int_or_percent(max_surge)),
    };
    set.spec.as_mut().unwrap().update_strategy =
        Some(DaemonSetUpdateStrategy { type_: Some("RollingUpdate".to_owned()), rolling_update: Some(rolling) });
}

pub fn taint(node: &mut Node, key: &str, effect: &str) {
    let taint = Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: None };
    node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
}

/// Returns a pod of the DaemonSet `logs` on a node. Its words are `new` or `old` (its revision), and any of `ready` (for
/// 100 s), `fresh` (ready for no time), `failed`, `succeeded`, `deleting`, `unscheduled`.
pub fn pod(name: &str, node: &str, words: &str) -> Pod {
    let set = daemon_set("logs", "nginx:1");
    let mut pod = daemon_pod::for_node(&fixture::pod(name), node);
    pod.metadata.owner_references = Some(vec![controller_ref(&set)]);
    let has = |word: &str| words.split(' ').any(|one| one == word);
    let hash = if has("new") { "new" } else { "old" };
    pod.metadata.labels = Some(fixture::labels(&[("app", "web"), (CONTROLLER_REVISION_HASH, hash)]));
    pod.spec.as_mut().unwrap().node_name = (!has("unscheduled")).then(|| node.to_owned());
    fixture::set_phase(&mut pod, "Running");
    for (word, phase) in [("failed", "Failed"), ("succeeded", "Succeeded"), ("unscheduled", "Pending")] {
        if has(word) {
            fixture::set_phase(&mut pod, phase);
        }
    }
    for (word, second) in [("ready", 0), ("fresh", 100)] {
        if has(word) {
            fixture::set_ready(&mut pod, fixture::at(second));
        }
    }
    pod.metadata.deletion_timestamp = has("deleting").then(|| fixture::time(99));
    pod
}

/// Returns a revision whose hash is its name without the owner's.
pub fn revision(hash: &str, number: i64, image: &str) -> ControllerRevision {
    let mut metadata = fixture::meta(&format!("logs-{hash}"));
    metadata.labels = Some(fixture::labels(&[("app", "web"), (CONTROLLER_REVISION_HASH, hash)]));
    let data = Some(RawExtension(data_of(&fixture::template(image))));
    ControllerRevision { metadata, data, revision: number }
}

fn claims<T>(owned: Vec<T>) -> Claims<T> {
    Claims { owned: owned.into_iter().map(Arc::new).collect(), adopt: Vec::new(), release: Vec::new() }
}

/// Returns a round in which the present revision has the hash `new`, and the previous one `old`. Names of nodes that end
/// in `!` have a `NoSchedule` taint, and in `!!` a `NoExecute` taint, both without these marks.
pub fn observed(set: DaemonSet, nodes: &[&str], pods: Vec<Pod>) -> Observed {
    let node = |marked: &&str| {
        let mut node = fixture::node(marked.trim_end_matches('!'));
        match marked.matches('!').count() {
            1 => taint(&mut node, "gpu", "NoSchedule"),
            2 => taint(&mut node, "gpu", "NoExecute"),
            _ => {}
        }
        Arc::new(node)
    };
    Observed {
        set: Arc::new(set),
        nodes: nodes.iter().map(node).collect(),
        pods: claims(pods),
        revisions: claims(vec![revision("old", 1, "nginx:0"), revision("new", 2, "nginx:1")]),
        namesake: None,
        are_expectations_satisfied: true,
        waits: BTreeMap::new(),
    }
}
