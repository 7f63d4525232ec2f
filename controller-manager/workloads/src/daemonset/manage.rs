//! Decides for each node which pods it lacks and which it has too many of.
//!
//! Corresponds to manage, podsShouldBeOnNode and getUnscheduledPodsWithoutNode in
//! pkg/controller/daemon/daemon_controller.go.

use super::changes::{Deletion, EndedOn, PodChanges};
use super::daemon_pod::is_updated;
use super::node_pods::NodePods;
use super::observe::{Observed, allows_surge, min_ready_seconds};
use super::placement::Decision;
use controller_base::pod;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;

pub fn manage<'a>(observed: &'a Observed, nodes: &[NodePods<'a>], hash: &str, now: Timestamp) -> PodChanges<'a> {
    let mut round = Round { observed, hash, now, changes: PodChanges::default() };
    for node in nodes {
        match node.decision {
            Some(Decision::Run) if node.pods.is_empty() => round.changes.create.push(node.node),
            Some(Decision::Run | Decision::Continue) => round.keep_one(node),
            Some(Decision::Stop) => {
                round.delete(node.pods.iter().copied().filter(|pod| !pod.is_deleting()));
            }
            // The pod garbage collector deletes pods on absent nodes, but not those that only wait for one.
            None => round.delete(node.pods.iter().copied().filter(|pod| pod::node_name(pod).is_empty())),
        }
    }
    round.changes
}

struct Round<'a, 'r> {
    observed: &'a Observed,
    hash: &'r str,
    now: Timestamp,
    changes: PodChanges<'a>,
}

impl<'a> Round<'a, '_> {
    fn delete(&mut self, pods: impl Iterator<Item = &'a Pod>) {
        self.changes.delete.extend(pods.map(Deletion::of));
    }

    /// Deletes ended pods and all but the oldest running one, or all but an old and a new one while the node is updated
    /// with surge.
    ///
    /// Deviation: with surge, no pod is created beside a failed one that waits for its back-off. Kubernetes creates one
    /// in every round, without a back-off.
    fn keep_one(&mut self, node: &NodePods<'a>) {
        let running = self.running(node);
        if !allows_surge(&self.observed.set) {
            return self.delete(running.into_iter().skip(1));
        }
        match running.len() {
            // A pod that is being deleted does not count.
            0 if node.runs() && !self.is_waiting(node) => self.changes.create.push(node.node),
            0 | 1 => {}
            _ => self.keep_pair(&running),
        }
    }

    fn is_waiting(&self, node: &NodePods<'a>) -> bool {
        let has_failed = |pod: &&Pod| !pod.is_deleting() && pod::phase(pod) == "Failed";
        self.observed.waits.contains_key(node.node) && node.pods.iter().any(has_failed)
    }

    /// Returns the pods that run and stay, and deletes those that have ended. A failed pod has to wait for its back-off.
    fn running(&mut self, node: &NodePods<'a>) -> Vec<&'a Pod> {
        let mut running = Vec::new();
        for pod in node.pods.iter().copied().filter(|pod| !pod.is_deleting()) {
            match pod::phase(pod) {
                "Failed" => match self.observed.waits.get(node.node) {
                    Some(wait) => self.changes.wait = Some(self.changes.wait.map_or(*wait, |other| other.min(*wait))),
                    None => self.delete_ended(pod, EndedOn::Failed(node.node)),
                },
                "Succeeded" => self.delete_ended(pod, EndedOn::Succeeded(node.node)),
                _ => running.push(pod),
            }
        }
        running
    }

    fn delete_ended(&mut self, pod: &'a Pod, ended: EndedOn<'a>) {
        self.changes.delete.push(Deletion { pod, ended: Some(ended) });
    }

    /// Keeps the oldest pod of the present revision and the oldest other one. The other one goes when it is not ready,
    /// or when the new one is available.
    fn keep_pair(&mut self, running: &[&'a Pod]) {
        let set = &*self.observed.set;
        let (new, old): (Vec<&Pod>, Vec<&Pod>) = running.iter().partition(|pod| is_updated(pod, self.hash, set));
        self.delete(new.iter().chain(&old).copied().filter(|pod| {
            let is_oldest = |pods: &[&Pod]| pods.first().is_some_and(|first| std::ptr::eq(*first, *pod));
            !is_oldest(&new) && !is_oldest(&old)
        }));
        if let (Some(new), Some(old)) = (new.first(), old.first()) {
            let replaces = pod::is_available(new, min_ready_seconds(set), self.now);
            if replaces || !pod::is_ready(old) {
                self.delete(std::iter::once(*old));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{daemon_set, observed, pod, roll};
    use super::super::node_pods::group;
    use super::*;
    use controller_base::fixture;
    use std::time::Duration;

    /// Returns the changes for one node. Each pod is named by its words.
    fn changes(node: &str, surge: &str, pods: &[&str]) -> String {
        let mut set = daemon_set("logs", "nginx:1");
        let unavailable = if surge == "0" { "1" } else { "0" };
        roll(&mut set, unavailable, surge);
        set.spec.as_mut().unwrap().min_ready_seconds = Some(10);
        let on = node.trim_end_matches('!');
        let pods = pods.iter().map(|words| pod(words, on, words)).collect();
        let nodes: &[&str] = if node == "absent" { &[] } else { &[node] };
        let observed = observed(set, nodes, pods);
        let grouped = group(&observed);
        let changes = manage(&observed, &grouped, "new", fixture::at(100));
        let mut words = Vec::new();
        words.extend(changes.create.iter().map(|_| "create".to_owned()));
        words.extend(changes.delete.iter().map(|deletion| format!("delete {}", deletion.pod.name())));
        words.join(", ")
    }

    #[test]
    fn a_node_has_one_pod() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("n", &[], "create"),
            ("n!", &[], ""),
            ("n!!", &[], ""),
            ("n", &["old ready"], ""),
            ("n!", &["old ready"], ""),
            ("n!!", &["old ready", "new deleting"], "delete old ready"),
            ("n", &["old deleting"], ""),
            ("n", &["a new", "b new", "c old"], "delete b new, delete c old"),
            ("n", &["a new unscheduled", "b new"], "delete a new unscheduled"),
            ("n", &["new failed"], "delete new failed"),
            ("n", &["new succeeded"], "delete new succeeded"),
            ("n", &["new failed", "new"], "delete new failed"),
            ("n!", &["new failed"], "delete new failed"),
            ("n", &["new failed deleting"], "create"),
            ("absent", &["new", "new unscheduled"], "delete new unscheduled"),
        ];
        for (node, pods, expected) in cases {
            assert_eq!(changes(node, "0", pods), *expected, "{node} with {pods:?}");
        }
    }

    #[test]
    fn with_surge_a_node_has_two_pods_until_the_new_one_is_available() {
        let cases: &[(&str, &[&str], &str)] = &[
            ("n", &[], "create"),
            ("n", &["old deleting"], "create"),
            ("n!", &["old deleting"], ""),
            ("n", &["old ready"], ""),
            ("n", &["new", "old ready"], ""),
            ("n", &["new fresh", "old ready"], ""),
            ("n", &["new ready", "old ready"], "delete old ready"),
            ("n", &["new", "old"], "delete old"),
            ("n", &["new", "old ready", "x new", "y old"], "delete x new, delete y old"),
            ("n", &["a old ready", "b old ready"], "delete b old ready"),
        ];
        for (node, pods, expected) in cases {
            assert_eq!(changes(node, "1", pods), *expected, "{node} with {pods:?}");
        }
    }

    #[test]
    fn failed_pods_wait_for_their_back_off() {
        let pods = vec![pod("a", "n1", "new failed"), pod("b", "n2", "new failed"), pod("c", "n3", "new failed")];
        for (surge, created) in [("0", vec![]), ("1", vec!["n3"])] {
            let mut set = daemon_set("logs", "nginx:1");
            roll(&mut set, "1", surge);
            let mut observed = observed(set, &["n1", "n2", "n3"], pods.clone());
            observed.waits = [("n1", 8), ("n2", 4)].map(|(node, s)| (node.to_owned(), Duration::from_secs(s))).into();
            let grouped = group(&observed);
            let changes = manage(&observed, &grouped, "new", fixture::at(100));
            let deleted: Vec<&str> = changes.delete.iter().map(|deletion| deletion.pod.name()).collect();
            assert_eq!((deleted, changes.wait), (vec!["c"], Some(Duration::from_secs(4))), "maxSurge {surge}");
            assert_eq!(changes.create, created, "maxSurge {surge}");
        }
    }
}
