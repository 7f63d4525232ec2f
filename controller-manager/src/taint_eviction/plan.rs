//! Plans whether and when a pod is evicted from its node.
//!
//! Corresponds to processPodOnNode in pkg/controller/tainteviction/taint_eviction.go.
//! Deviation: Kubernetes counts tolerationSeconds from when the running controller first observed the pod and the taint
//! together; here they count from the taint's timeAdded or the pod's binding, whichever is later, so that a restart
//! of the controller does not prolong them.

use client::Plan;
use component_helpers::scheduling::tolerations::tolerates;
use controller_base::eviction::{Eviction, Words};
use controller_base::{clock, pod};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, Taint, Toleration};
use std::sync::Arc;

#[derive(Clone, Debug)]
pub struct Observed {
    pub pod: Arc<Pod>,
    pub node: Option<Arc<Node>>,
    /// Time from which taints without `timeAdded` count.
    pub observed_since: Timestamp,
    /// True if an earlier round scheduled the pod's eviction.
    pub was_scheduled: bool,
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let pod = &*observed.pod;
    let words = Words {
        event: "TaintManagerEviction",
        marking: format!("Marking for deletion Pod {}", pod.key()),
        cancelling: format!("Cancelling deletion of Pod {}", pod.key()),
        reason: "DeletionByTaintManager",
        message: "Taint manager: deleting due to NoExecute taint",
    };
    controller_base::eviction::plan(pod, eviction(observed), observed.was_scheduled, now, &words)
}

pub fn eviction(observed: &Observed) -> Eviction {
    let Some(node) = &observed.node else { return Eviction::Never };
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    let tolerations = observed.pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
    let bound = bound_since(&observed.pod);
    let ends = taints.filter(|taint| taint.effect == "NoExecute").filter_map(|taint| {
        let added = taint.time_added.as_ref().map_or(observed.observed_since, |added| added.0);
        evicted_at(taint, tolerations, added.max(bound.unwrap_or(added)))
    });
    ends.min().map_or(Eviction::Never, Eviction::At)
}

/// Returns the time at which a taint that counts from `since` evicts a pod; `None` if the pod tolerates it for ever. Of
/// several tolerations for one taint the first in the list counts.
fn evicted_at(taint: &Taint, tolerations: &[Toleration], since: Timestamp) -> Option<Timestamp> {
    match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
        None => Some(Timestamp::UNIX_EPOCH),
        Some(used) => Some(clock::after(since, used.toleration_seconds?.max(0))),
    }
}

/// Returns the time at which the pod was bound to its node, according to its status.
fn bound_since(pod: &Pod) -> Option<Timestamp> {
    let scheduled = pod::condition(pod, "PodScheduled").and_then(|condition| condition.last_transition_time.as_ref());
    scheduled.or(pod.metadata.creation_timestamp.as_ref()).map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use std::time::Duration;

    fn taint(key: &str, effect: &str, added: Option<i64>) -> Taint {
        Taint { key: key.to_owned(), effect: effect.to_owned(), value: None, time_added: added.map(fixture::time) }
    }

    fn toleration(key: &str, operator: &str, effect: &str, seconds: Option<i64>) -> Toleration {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Toleration {
            key: some(key),
            operator: some(operator),
            effect: some(effect),
            value: None,
            toleration_seconds: seconds,
        }
    }

    fn observed(taints: Vec<Taint>, tolerations: Vec<Toleration>) -> Observed {
        let mut pod = fixture::pod("web");
        pod.spec.as_mut().unwrap().tolerations = Some(tolerations);
        let mut node = fixture::node("node-1");
        node.spec.get_or_insert_default().taints = Some(taints);
        Observed {
            pod: Arc::new(pod),
            node: Some(Arc::new(node)),
            observed_since: fixture::at(50),
            was_scheduled: false,
        }
    }

    #[test]
    fn tolerations_decide_when_a_pod_leaves() {
        let at = |second: i64| Eviction::At(fixture::at(second));
        let now = Eviction::At(Timestamp::UNIX_EPOCH);
        let cases = [
            ("no taint", vec![], vec![], Eviction::Never),
            ("a taint for the scheduler alone", vec![taint("a", "NoSchedule", Some(10))], vec![], Eviction::Never),
            ("not tolerated", vec![taint("a", "NoExecute", Some(10))], vec![], now),
            (
                "tolerated for ever",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "", None)],
                Eviction::Never,
            ),
            (
                "tolerated for a time",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "NoExecute", Some(300))],
                at(310),
            ),
            (
                "for no time",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "NoExecute", Some(0))],
                at(10),
            ),
            (
                "a time before none",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "NoExecute", Some(-5))],
                at(10),
            ),
            (
                "another effect",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "NoSchedule", None)],
                now,
            ),
            (
                "everything tolerated",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("", "Exists", "", None)],
                Eviction::Never,
            ),
            (
                "one of two",
                vec![taint("a", "NoExecute", Some(10)), taint("b", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "", None)],
                now,
            ),
            (
                "the shorter of two",
                vec![taint("a", "NoExecute", Some(10)), taint("b", "NoExecute", Some(20))],
                vec![toleration("a", "Exists", "", Some(300)), toleration("b", "Exists", "", Some(60))],
                at(80),
            ),
            (
                "the first of two tolerations",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("a", "Exists", "", Some(300)), toleration("a", "Exists", "", Some(60))],
                at(310),
            ),
            (
                "the first of two tolerations, without limit",
                vec![taint("a", "NoExecute", Some(10))],
                vec![toleration("", "Exists", "", None), toleration("a", "Exists", "", Some(60))],
                Eviction::Never,
            ),
            (
                "a taint without a time",
                vec![taint("a", "NoExecute", None)],
                vec![toleration("a", "Exists", "", Some(30))],
                at(80),
            ),
        ];
        for (what, taints, tolerations, expected) in cases {
            assert_eq!(eviction(&observed(taints, tolerations)), expected, "{what}");
        }
    }

    #[test]
    fn a_pod_bound_after_the_taint_has_its_time_from_then() {
        let mut observed =
            observed(vec![taint("a", "NoExecute", Some(10))], vec![toleration("a", "Exists", "", Some(300))]);
        fixture::set_condition(Arc::get_mut(&mut observed.pod).unwrap(), "PodScheduled", "True", fixture::at(100));
        assert_eq!(eviction(&observed), Eviction::At(fixture::at(400)));
    }

    #[test]
    fn eviction_is_announced_marked_and_done() {
        let due = observed(vec![taint("a", "NoExecute", Some(10))], vec![toleration("a", "Exists", "", Some(300))]);
        assert_eq!(plan(&due, fixture::at(100)).requeue_after, Some(Duration::from_secs(210)));
        let evicted = plan(&due, fixture::at(310)).to_string();
        let lines: Vec<&str> = evicted.lines().map(|line| line.split(" {").next().unwrap()).collect();
        let expected = [
            "event Normal TaintManagerEviction Pod default/web: Marking for deletion Pod default/web",
            "strategic patch pods/status default/web",
            "delete pods default/web uid=uid-web",
        ];
        assert_eq!(lines, expected);
        let spared = Observed { was_scheduled: true, ..observed(vec![], vec![]) };
        let expected = "event Normal TaintManagerEviction Pod default/web: Cancelling deletion of Pod default/web\n";
        assert_eq!(plan(&spared, fixture::at(310)).to_string(), expected);
    }
}
