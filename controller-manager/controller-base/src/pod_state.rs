//! `PodState`: what a count of pods depends on, as the value of an index. An owner's pods are counted by the sizes of the
//! index's sets, and no pod is looked at.
//!
//! Nothing in Kubernetes corresponds to it: its controllers look at all pods of an owner each time.

use crate::controller_ref::controller_of;
use crate::pod;
use client::{Informer, Lister, label_sets};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Name of the index.
const INDEX: &str = "podState";

/// How far a pod has come on its way from creation to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    Active,
    /// The pod is being deleted, and its containers may still run.
    Terminating,
    Terminal,
}

/// What many pods of one owner have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodState {
    pub activity: Activity,
    pub is_ready: bool,
    pub labels: BTreeMap<String, String>,
}

/// The pods whose states are asked for.
#[derive(Clone, Copy, Debug)]
pub enum Whose<'a> {
    /// Those with a controller of this uid.
    Controller(&'a str),
    /// Those of this namespace that have no controller.
    Nobody(&'a str),
}

impl Whose<'_> {
    /// Returns how the values of these pods begin. No uid contains a `/`.
    fn prefix(self) -> String {
        match self {
            Whose::Controller(uid) => format!("{uid}\n"),
            Whose::Nobody(namespace) => format!("/{namespace}\n"),
        }
    }
}

/// Adds the index.
pub fn index(pods: &Informer<Pod>) {
    pods.index(INDEX, values);
}

/// Adds the index to a lister of given pods, for tests.
#[must_use]
pub fn indexed(pods: Lister<Pod>) -> Lister<Pod> {
    pods.indexed(INDEX, values)
}

/// Calls a function with each state that pods are in, and their number.
pub fn count(pods: &Lister<Pod>, whose: Whose<'_>, mut count: impl FnMut(PodState, usize)) {
    pods.count_by_values(INDEX, &whose.prefix(), |text, pods| count(PodState::parse(text), pods));
}

/// Returns the pods whose state `wanted` accepts.
pub fn select(pods: &Lister<Pod>, whose: Whose<'_>, wanted: impl Fn(&PodState) -> bool) -> Vec<Arc<Pod>> {
    pods.by_values(INDEX, &whose.prefix(), |text| wanted(&PodState::parse(text)))
}

fn values(pod: &Pod) -> Vec<String> {
    let whose =
        controller_of(pod).map_or(Whose::Nobody(pod.namespace()), |controller| Whose::Controller(&controller.uid));
    let mut value = whose.prefix();
    value.push(match (pod::is_terminal(pod), pod.is_deleting()) {
        (true, _) => 'e',
        (false, true) => 'd',
        (false, false) => 'a',
    });
    value.push(if pod::is_ready(pod) { 'r' } else { '-' });
    label_sets::append(&mut value, pod.metadata.labels.iter().flatten());
    vec![value]
}

impl PodState {
    /// Parses the part of a value after the prefix.
    fn parse(text: &str) -> Self {
        let (flags, labels) = text.split_at_checked(2).expect("a value has two flags before the labels");
        let activity = match flags.as_bytes()[0] {
            b'e' => Activity::Terminal,
            b'd' => Activity::Terminating,
            _ => Activity::Active,
        };
        Self { activity, is_ready: flags.ends_with('r'), labels: label_sets::parse(labels) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn shown(pods: &Lister<Pod>, whose: Whose<'_>) -> Vec<String> {
        let mut shown = Vec::new();
        count(pods, whose, |state, pods| {
            let PodState { activity, is_ready, labels } = state;
            shown.push(format!("{pods} {activity:?} {}{labels:?}", if is_ready { "ready " } else { "" }));
        });
        shown
    }

    #[test]
    fn pods_are_counted_by_owner_and_state() {
        let pod = |name: &str, change: &dyn Fn(&mut Pod)| {
            let mut pod = fixture::pod(name);
            pod.metadata.labels = Some(fixture::labels(&[("app", "web")]));
            pod.metadata.owner_references = Some(vec![fixture::owner("apps/v1", "ReplicaSet", "web", true)]);
            change(&mut pod);
            pod
        };
        let uid = fixture::owner("apps/v1", "ReplicaSet", "web", true).uid;
        let pods = indexed(Lister::of([
            pod("a", &|pod| fixture::set_ready(pod, fixture::at(1))),
            pod("b", &|pod| fixture::set_ready(pod, fixture::at(2))),
            pod("c", &|pod| pod.metadata.labels = None),
            pod("d", &|pod| pod.metadata.deletion_timestamp = Some(fixture::time(3))),
            pod("e", &|pod| fixture::set_phase(pod, "Failed")),
            pod("f", &|pod| pod.metadata.owner_references = None),
            pod("g", &|pod| pod.metadata.owner_references.as_mut().unwrap()[0].controller = None),
        ]));
        assert_eq!(
            shown(&pods, Whose::Controller(&uid)),
            [
                "1 Active {}",
                "2 Active ready {\"app\": \"web\"}",
                "1 Terminating {\"app\": \"web\"}",
                "1 Terminal {\"app\": \"web\"}",
            ]
        );
        assert_eq!(shown(&pods, Whose::Nobody("default")), ["2 Active {\"app\": \"web\"}"]);
        assert!(shown(&pods, Whose::Nobody("defaul")).is_empty() && shown(&pods, Whose::Controller("")).is_empty());
        let ready = select(&pods, Whose::Controller(&uid), |state| state.is_ready);
        assert_eq!(ready.iter().map(|pod| pod.name()).collect::<Vec<_>>(), ["a", "b"]);
    }
}
