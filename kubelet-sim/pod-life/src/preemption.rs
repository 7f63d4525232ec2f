//! Chooses the pods that end so that a critical pod has room.
//!
//! Corresponds to pkg/kubelet/preemption/preemption.go: as few guaranteed pods as possible, then as few burstable ones,
//! then as few best-effort ones; among pods of one class, those that bring what is missing with the least to spare.

use crate::qos::QosClass;
use component_helpers::scheduling::requests::Resources;
use std::cmp::Ordering;

/// Reason and message of a pod that had to go.
pub const REASON: &str = "Preempting";
pub const MESSAGE: &str = "Preempted in order to admit critical pod";

/// A pod on the node, as far as preemption looks at it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Namespace and name.
    pub key: String,
    pub qos: QosClass,
    pub priority: Option<i32>,
    pub is_critical: bool,
    pub requests: Resources,
}

/// Amounts that are missing, by resource.
type Missing = Vec<(String, i64)>;

/// Returns the keys of the pods that have to go, or why none of them would be enough.
pub fn victims(preemptor: &Candidate, pods: &[&Candidate], missing: &Missing) -> Result<Vec<String>, String> {
    let of_class = |class: QosClass| -> Vec<&Candidate> {
        let pods = pods.iter().filter(|pod| pod.qos == class && gives_way(pod, preemptor));
        pods.copied().collect()
    };
    let [best_effort, burstable, guaranteed] =
        [QosClass::BestEffort, QosClass::Burstable, QosClass::Guaranteed].map(of_class);
    let never_enough = without(missing, &[&best_effort, &burstable, &guaranteed]);
    if !never_enough.is_empty() {
        let shown: String = never_enough.iter().map(|(name, amount)| format!("(res: {name}, q: {amount}), ")).collect();
        return Err(format!("no set of running pods found to reclaim resources: [{shown}]"));
    }
    let of_guaranteed = nearest(guaranteed, without(missing, &[&best_effort, &burstable]));
    let of_burstable = nearest(burstable, without(missing, &[&best_effort, &of_guaranteed]));
    let of_best_effort = nearest(best_effort, without(missing, &[&of_burstable, &of_guaranteed]));
    let chosen = of_best_effort.iter().chain(&of_burstable).chain(&of_guaranteed);
    Ok(chosen.map(|pod| pod.key.clone()).collect())
}

fn gives_way(pod: &Candidate, preemptor: &Candidate) -> bool {
    let outranks = preemptor.priority.zip(pod.priority).is_some_and(|(one, other)| one > other);
    !pod.is_critical || outranks
}

/// Returns what is still missing without these pods.
fn without(missing: &Missing, gone: &[&[&Candidate]]) -> Missing {
    let freed = |name: &str| gone.iter().copied().flatten().map(|pod| pod.requests.get(name)).sum::<i64>();
    let left = missing.iter().map(|(name, amount)| (name.clone(), amount - freed(name)));
    left.filter(|(_, amount)| *amount > 0).collect()
}

/// Takes pods until nothing is missing, each time the one that leaves the least missing; among equals the smaller one.
fn nearest(mut pods: Vec<&Candidate>, mut missing: Missing) -> Vec<&Candidate> {
    let mut chosen = Vec::new();
    while !missing.is_empty() {
        let order = |one: &&&Candidate, other: &&&Candidate| {
            let by_distance = distance(&missing, one).partial_cmp(&distance(&missing, other));
            by_distance.unwrap_or(Ordering::Equal).then_with(|| size(one).cmp(&size(other)))
        };
        let Some(at) = pods.iter().enumerate().min_by(|(_, a), (_, b)| order(a, b)).map(|(at, _)| at) else { break };
        let pod = pods.remove(at);
        missing = without(&missing, &[&[pod]]);
        chosen.push(pod);
    }
    chosen
}

/// Returns how far a pod is from bringing all that is missing; 0 if it does.
fn distance(missing: &Missing, pod: &Candidate) -> f64 {
    let left = missing.iter().map(|(name, amount)| (*amount, amount - pod.requests.get(name)));
    left.filter(|(_, left)| *left > 0).map(|(amount, left)| (left as f64 / amount as f64).powi(2)).sum()
}

/// Compares pods by memory first, because it cannot be compressed.
fn size(pod: &Candidate) -> (i64, i64) {
    (pod.requests.get("memory"), pod.requests.get("cpu"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn candidate(key: &str, qos: QosClass, cpu: &str, memory: &str) -> Candidate {
        let requests = Resources::of(Some(&serde_json::from_value(json!({"cpu": cpu, "memory": memory})).unwrap()));
        Candidate { key: key.to_owned(), qos, priority: Some(0), is_critical: false, requests }
    }

    fn critical(priority: i32) -> Candidate {
        Candidate {
            priority: Some(priority),
            is_critical: true,
            ..candidate("critical", QosClass::Burstable, "0", "0")
        }
    }

    /// A node with the pods of the original's own test table.
    fn pods() -> Vec<Candidate> {
        vec![
            candidate("best-effort", QosClass::BestEffort, "0", "0"),
            candidate("burstable", QosClass::Burstable, "100m", "100Mi"),
            candidate("high-burstable", QosClass::Burstable, "300m", "300Mi"),
            candidate("guaranteed", QosClass::Guaranteed, "100m", "100Mi"),
            candidate("high-guaranteed", QosClass::Guaranteed, "300m", "300Mi"),
        ]
    }

    #[test]
    fn the_least_important_pods_that_are_enough_go() {
        let mi = 1 << 20;
        for (cpu, memory, expected) in [
            (0, 50, vec!["burstable"]),
            (0, 100, vec!["burstable"]),
            (0, 101, vec!["high-burstable"]),
            (350, 0, vec!["high-burstable", "burstable"]),
            (0, 450, vec!["high-burstable", "burstable", "guaranteed"]),
            (0, 550, vec!["high-burstable", "high-guaranteed"]),
            (250, 90, vec!["high-burstable"]),
        ] {
            let missing: Missing = [("cpu", cpu), ("memory", memory * mi)]
                .into_iter()
                .filter(|(_, amount)| *amount > 0)
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect();
            let pods = pods();
            let found = victims(&critical(2_000_000_000), &pods.iter().collect::<Vec<_>>(), &missing);
            assert_eq!(found.unwrap(), expected, "{cpu}m CPU, {memory} MiB");
        }
    }

    #[test]
    fn no_pod_goes_if_all_together_are_not_enough() {
        let pods = pods();
        let found = victims(&critical(0), &pods.iter().collect::<Vec<_>>(), &vec![("cpu".to_owned(), 900)]);
        let expected = "no set of running pods found to reclaim resources: [(res: cpu, q: 100), ]";
        assert_eq!(found, Err(expected.to_owned()));
    }

    #[test]
    fn a_critical_pod_gives_way_only_to_a_higher_priority() {
        let other =
            Candidate { requests: candidate("", QosClass::Burstable, "1", "0").requests, ..critical(2_000_000_000) };
        let missing = vec![("cpu".to_owned(), 500)];
        assert!(victims(&critical(2_000_000_000), &[&other], &missing).is_err());
        assert_eq!(victims(&critical(2_000_001_000), &[&other], &missing).unwrap(), ["critical"]);
    }
}
