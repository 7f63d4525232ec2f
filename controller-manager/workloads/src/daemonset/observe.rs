//! `Observed`, the objects that one round over a DaemonSet reads, and functions that read its spec.
//!
//! Corresponds to getDaemonPods and controlledHistories in pkg/controller/daemon, and to its util/daemonset_util.go.

use crate::controller_revision;
use crate::intstr::{self, Round};
use crate::template_hash::template_hash;
use client::Lister;
use controller_base::controller_ref::{Claims, owner_key};
use controller_base::indexes::{PODS_BY_CONTROLLER, REVISIONS_BY_CONTROLLER, orphans_key};
use proto::Kind;
use proto::kinds::IntOrString;
use proto::kinds::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, RollingUpdateDaemonSet};
use proto::kinds::api::core::v1::{Node, Pod};
use proto::meta::label_selector;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct Observed {
    pub set: Arc<DaemonSet>,
    /// All nodes, by name.
    pub nodes: Vec<Arc<Node>>,
    /// The DaemonSet's pods, including terminal ones.
    pub pods: Claims<Pod>,
    pub revisions: Claims<ControllerRevision>,
    /// The revision that has the name of the present template's, if another object controls it.
    pub namesake: Option<Arc<ControllerRevision>>,
    /// True if the cache shows this controller's earlier creations and deletions. Otherwise it creates and deletes no
    /// pod.
    pub are_expectations_satisfied: bool,
    /// Remaining back-off of nodes on which pods of the DaemonSet have failed.
    pub waits: BTreeMap<String, Duration>,
}

/// The caches that the controller reads.
#[derive(Clone)]
pub struct Listers {
    pub sets: Lister<DaemonSet>,
    pub revisions: Lister<ControllerRevision>,
    pub pods: Lister<Pod>,
    pub nodes: Lister<Node>,
}

/// Reads the caches; `None` if the DaemonSet does not exist. Its cost is that of the nodes and of the DaemonSet's pods.
pub fn observe(key: &str, listers: &Listers, are_expectations_satisfied: bool) -> Option<Observed> {
    let set = listers.sets.by_key(key)?;
    let selector = label_selector::from_typed(Some(&spec(&set).selector)).ok()?;
    let owner = owner_key(DaemonSet::KIND, set.namespace(), set.name());
    let own = listers.pods.by_index(PODS_BY_CONTROLLER, &owner);
    let orphans = listers.pods.by_index(PODS_BY_CONTROLLER, &orphans_key(set.namespace()));
    let pods = Claims::of(&*set, own.into_iter().chain(orphans), |labels| selector.matches(labels));
    let own = listers.revisions.by_index(REVISIONS_BY_CONTROLLER, &owner);
    let orphans = listers.revisions.by_index(REVISIONS_BY_CONTROLLER, &orphans_key(set.namespace()));
    let mut revisions = Claims::of(&*set, own.into_iter().chain(orphans), |labels| selector.matches(labels));
    controller_revision::sort(&mut revisions.owned);
    let name = controller_revision::name(set.name(), &next_hash(&set));
    let is_own = revisions.owned.iter().any(|revision| revision.name() == name);
    let namesake = if is_own { None } else { listers.revisions.get(set.namespace(), &name) };
    let (nodes, waits) = (listers.nodes.list(), BTreeMap::new());
    Some(Observed { set, nodes, pods, revisions, namesake, are_expectations_satisfied, waits })
}

pub fn spec(set: &DaemonSet) -> &DaemonSetSpec {
    set.spec.as_ref().expect("validation requires a DaemonSet's spec")
}

pub fn min_ready_seconds(set: &DaemonSet) -> i32 {
    spec(set).min_ready_seconds.unwrap_or(0)
}

/// Returns the hash in the name of a new revision.
pub fn next_hash(set: &DaemonSet) -> String {
    let collision_count = set.status.as_ref().and_then(|status| status.collision_count);
    template_hash(&spec(set).template, collision_count)
}

pub fn is_rolling(set: &DaemonSet) -> bool {
    let strategy = spec(set).update_strategy.as_ref();
    strategy.and_then(|strategy| strategy.type_.as_deref()) == Some("RollingUpdate")
}

/// Returns how many nodes of `desired` may have an old and a new pod at once.
pub fn max_surge(set: &DaemonSet, desired: usize) -> usize {
    limit(set, desired, |rolling| rolling.max_surge.as_ref())
}

/// Returns how many nodes of `desired` may lack an available pod during an update.
pub fn max_unavailable(set: &DaemonSet, desired: usize) -> usize {
    limit(set, desired, |rolling| rolling.max_unavailable.as_ref())
}

/// Returns true if a node may have two pods while it is updated.
pub fn allows_surge(set: &DaemonSet) -> bool {
    max_surge(set, 1) > 0
}

fn limit(set: &DaemonSet, desired: usize, field: impl Fn(&RollingUpdateDaemonSet) -> Option<&IntOrString>) -> usize {
    let strategy = spec(set).update_strategy.as_ref().filter(|_| is_rolling(set));
    let value = strategy.and_then(|strategy| strategy.rolling_update.as_ref()).and_then(field);
    let total = i32::try_from(desired).unwrap_or(i32::MAX);
    let scaled = value.and_then(|value| intstr::scaled(value, total, Round::Up)).unwrap_or(0);
    usize::try_from(scaled).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{daemon_set, roll};
    use super::*;

    #[test]
    fn limits_round_up_and_hold_for_rolling_updates() {
        for (unavailable, surge, desired, expected) in [
            ("1", "0", 10, (1, 0)),
            ("0", "25%", 10, (0, 3)),
            ("10%", "0", 11, (2, 0)),
            ("0", "1%", 1, (0, 1)),
            ("50%", "0", 0, (0, 0)),
        ] {
            let mut set = daemon_set("logs", "nginx:1");
            roll(&mut set, unavailable, surge);
            assert_eq!((max_unavailable(&set, desired), max_surge(&set, desired)), expected, "{unavailable} {surge}");
            set.spec.as_mut().unwrap().update_strategy.as_mut().unwrap().type_ = Some("OnDelete".to_owned());
            assert_eq!((max_unavailable(&set, desired), allows_surge(&set)), (0, false));
        }
    }
}
