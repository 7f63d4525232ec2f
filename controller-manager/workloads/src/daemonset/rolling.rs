//! The strategy RollingUpdate: which old pods go, and which nodes get a second pod, within `maxUnavailable` or
//! `maxSurge`.
//!
//! Corresponds to rollingUpdate and updatedDesiredNodeCounts in pkg/controller/daemon/update.go.

use super::changes::{Deletion, PodChanges};
use super::node_pods::{NodePods, Pair, desired};
use super::observe::{max_surge, max_unavailable, min_ready_seconds};
use controller_base::pod;
use jiff::Timestamp;
use proto::kinds::api::apps::v1::DaemonSet;
use proto::kinds::api::core::v1::Pod;

/// Plans the next step of an update. Call it in a round in which no node lacks a pod or has too many.
pub fn roll<'a>(set: &DaemonSet, nodes: &[NodePods<'a>], hash: &str, now: Timestamp) -> PodChanges<'a> {
    let desired = desired(nodes);
    let surge = max_surge(set, desired);
    let update = Update { set, hash, now };
    if surge > 0 {
        return update.with_surge(nodes, desired, surge);
    }
    // Validation admits no strategy with both limits zero. If there is one, an update has to go on nevertheless.
    update.with_unavailable(nodes, max_unavailable(set, desired).max(1))
}

struct Update<'r> {
    set: &'r DaemonSet,
    hash: &'r str,
    now: Timestamp,
}

impl Update<'_> {
    fn is_available(&self, pod: &Pod) -> bool {
        pod::is_available(pod, min_ready_seconds(self.set), self.now)
    }

    /// Deletes old pods; the next round creates new ones in their place. An old pod that is not available goes at once.
    /// Of the others, as many go as `limit` leaves after the nodes that already lack an available pod.
    fn with_unavailable<'a>(&self, nodes: &[NodePods<'a>], limit: usize) -> PodChanges<'a> {
        let (mut unavailable, mut replaced, mut candidates) = (0, Vec::new(), Vec::new());
        for node in nodes.iter().filter(|node| node.runs() || !node.pods.is_empty()) {
            match node.pair(self.hash, self.set) {
                Some(Pair { new: Some(new), old: None }) if self.is_available(new) => {}
                Some(Pair { new: None, old: Some(old) }) if self.is_available(old) => candidates.push(old),
                Some(Pair { new: None, old: Some(old) }) => {
                    unavailable += 1;
                    replaced.push(old);
                }
                _ => unavailable += 1,
            }
        }
        replaced.extend(candidates.into_iter().take(limit.saturating_sub(unavailable)));
        PodChanges { delete: replaced.into_iter().map(Deletion::of).collect(), ..PodChanges::default() }
    }

    /// Creates new pods beside old ones, on at most `limit` nodes at once. An old pod goes when the new one is available.
    /// A node whose old pod is not available gets its new pod at once. An available pod on a node that no longer fits
    /// goes when enough other nodes have an available one.
    fn with_surge<'a>(&self, nodes: &[NodePods<'a>], desired: usize, limit: usize) -> PodChanges<'a> {
        let (mut surging, mut available) = (0, 0);
        let (mut delete, mut misplaced) = (Vec::new(), Vec::new());
        let (mut create, mut candidates) = (Vec::new(), Vec::new());
        for node in nodes.iter().filter(|node| node.decision.is_some()) {
            let Some(pair) = node.pair(self.hash, self.set) else {
                surging += 1;
                continue;
            };
            let serves = pair.old.or(pair.new).is_some_and(|pod| self.is_available(pod));
            available += usize::from(serves);
            match pair {
                Pair { new: Some(new), old: Some(old) } if self.is_available(new) => delete.push(old),
                Pair { new: Some(_), old: Some(_) } => surging += 1,
                Pair { new: None, old: Some(_) } if node.runs() && serves => candidates.push(node.node),
                Pair { new: None, old: Some(_) } if node.runs() => create.push(node.node),
                Pair { new: None, old: Some(old) } if serves => misplaced.push(old),
                Pair { new: None, old: Some(old) } => delete.push(old),
                Pair { old: None, .. } => {}
            }
        }
        delete.extend(misplaced.into_iter().take(available.saturating_sub(desired)));
        create.extend(candidates.into_iter().take(limit.saturating_sub(surging)));
        PodChanges { create, delete: delete.into_iter().map(Deletion::of).collect(), wait: None }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self as daemons, daemon_set, observed, pod};
    use super::super::node_pods::group;
    use super::*;
    use controller_base::fixture;
    use proto::Kind;

    /// Returns the step for nodes n1, n2, …. Each entry has the marks of a node, a colon, and the words of its pods,
    /// separated by commas.
    fn step(unavailable: &str, surge: &str, nodes: &[&str]) -> String {
        let mut set = daemon_set("logs", "nginx:1");
        daemons::roll(&mut set, unavailable, surge);
        let (mut names, mut pods) = (Vec::new(), Vec::new());
        for (i, entry) in nodes.iter().enumerate() {
            let (marks, words) = entry.split_once(':').unwrap();
            let node = format!("n{}", i + 1);
            for words in words.split(',').filter(|words| !words.is_empty()) {
                let name = format!("{}-{node}", words.split(' ').next().unwrap());
                pods.push(pod(&name, &node, words));
            }
            names.push(format!("{node}{marks}"));
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let observed = observed(set, &names, pods);
        let nodes = group(&observed);
        let changes = roll(&observed.set, &nodes, "new", fixture::at(200));
        let created = changes.create.iter().map(|node| format!("+{node}"));
        let deleted = changes.delete.iter().map(|deletion| format!("-{}", deletion.pod.name()));
        created.chain(deleted).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn old_pods_go_within_max_unavailable() {
        let old = ":old ready";
        let cases: &[(&str, &[&str], &str)] = &[
            ("1", &[old, old, old], "-old-n1"),
            ("50%", &[old, old, old], "-old-n1 -old-n2"),
            ("2", &[":new ready", old, old], "-old-n2 -old-n3"),
            ("2", &[":new", old, old], "-old-n2"),
            ("1", &[":new", old, old], ""),
            ("2", &[":", old, old], "-old-n2"),
            ("1", &[":old deleting", old, old], ""),
            ("1", &[":old", old, ":old"], "-old-n1 -old-n3"),
            ("3", &[":old", old, old], "-old-n1 -old-n2 -old-n3"),
            ("1", &[":new ready", ":new ready"], ""),
            ("1", &[":old ready,old ready", old], ""),
            ("0", &[old, old], "-old-n1"),
            // A tainted node without a pod is not one that lacks a pod.
            ("1", &["!:", old], "-old-n2"),
            ("1", &["!:old ready", old], "-old-n1"),
        ];
        for (unavailable, nodes, expected) in cases {
            assert_eq!(step(unavailable, "0", nodes), *expected, "maxUnavailable {unavailable}: {nodes:?}");
        }
    }

    #[test]
    fn new_pods_come_within_max_surge() {
        let old = ":old ready";
        let cases: &[(&str, &[&str], &str)] = &[
            ("1", &[old, old, old], "+n1"),
            ("50%", &[old, old, old], "+n1 +n2"),
            ("2", &[":old ready,new", old, old], "+n2"),
            ("1", &[":old ready,new", old, old], ""),
            ("1", &[":old ready,new ready", old, old], "+n2 -old-n1"),
            ("1", &[":new ready", old, old], "+n2"),
            // Nothing is lost where the old pod does not serve.
            ("1", &[":old", ":old", old], "+n1 +n2 +n3"),
            ("1", &[":new", ":new ready"], ""),
            // A pod on a node that no longer fits goes when the desired number is available elsewhere.
            ("1", &["!:old ready", ":new ready"], "-old-n1"),
            ("1", &["!:old ready", ":new"], ""),
            ("1", &["!:old", ":new"], "-old-n1"),
        ];
        for (surge, nodes, expected) in cases {
            assert_eq!(step("0", surge, nodes), *expected, "maxSurge {surge}: {nodes:?}");
        }
    }
}
