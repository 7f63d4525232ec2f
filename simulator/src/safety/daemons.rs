//! The rule that a DaemonSet never has two pods on a node, or three where its update may surge.
//!
//! It is checked when a pod is created. Without surge, a new pod may come only when no other one is there whose containers
//! may still run, not even one that is being deleted. With surge, it may come beside one pod that stays.

use super::fields::{DaemonSet, Pod};
use super::{Rule, RuleViolation, WriteContext, read};
use std::collections::BTreeMap;

const DAEMON_SETS: &str = "/registry/daemonsets/";
const PODS: &str = "/registry/pods/";

#[derive(Default)]
pub struct Daemons {
    /// By UID, whether a DaemonSet may surge or ever could: a controller may act on an older state.
    surging: BTreeMap<String, bool>,
    /// Pods of DaemonSets that exist.
    pods: BTreeMap<String, DaemonPod>,
}

struct DaemonPod {
    daemon_set: String,
    node: String,
    has_ended: bool,
    is_deleting: bool,
}

impl Daemons {
    fn check_daemon_set(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let Some(set) = read::<DaemonSet>(key, value)? else { return Ok(()) };
        let surge = &set.spec.update_strategy.rolling_update.max_surge;
        let may_surge = !(surge.is_null() || *surge == 0 || *surge == "0%");
        *self.surging.entry(set.metadata.uid).or_default() |= may_surge;
        Ok(())
    }

    fn check_pod(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), RuleViolation> {
        let before = self.pods.remove(key);
        let Some(pod) = read::<Pod>(key, value)? else { return Ok(()) };
        let daemon_set = pod.metadata.controller().unwrap_or_default().to_owned();
        let Some(may_surge) = self.surging.get(&daemon_set).copied() else { return Ok(()) };
        let (has_ended, is_deleting) = (pod.has_ended(), pod.metadata.is_deleting());
        let pod = DaemonPod { node: pod.target_node().to_owned(), daemon_set, has_ended, is_deleting };
        let is_beside = |other: &DaemonPod| {
            other.daemon_set == pod.daemon_set
                && other.node == pod.node
                && !other.has_ended
                && !(may_surge && other.is_deleting)
        };
        let beside: Vec<String> =
            self.pods.iter().filter(|(_, other)| is_beside(other)).map(|(key, _)| key.clone()).collect();
        let node = pod.node.clone();
        self.pods.insert(key.to_owned(), pod);
        if before.is_none() && beside.len() > usize::from(may_surge) {
            let what = format!("{key} was created for {node}, where {} of its DaemonSet run", beside.join(" and "));
            return Err(RuleViolation::about(what, beside));
        }
        Ok(())
    }
}

impl Rule for Daemons {
    fn prefixes(&self) -> &'static [&'static str] {
        &[DAEMON_SETS, PODS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, _: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(DAEMON_SETS) { self.check_daemon_set(key, value) } else { self.check_pod(key, value) }
    }
}
