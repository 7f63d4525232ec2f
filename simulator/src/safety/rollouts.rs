//! The rule that a rolling update keeps `maxSurge` and `maxUnavailable`.
//!
//! A controller can guarantee that only for the states in its caches. Each cache has one past state of its resource,
//! lags on its own, and never goes back. Two facts bound the lag. An update of a ReplicaSet names its version, so the
//! cache had that version. A reconcile waits until the caches have all writes that were answered before it
//! (`client::ConsistencyStore`). So each write is checked against the versions that its reconcile may have used
//! (`controller_caches::Window`):
//!
//! - a ReplicaSet grows within the surge,
//! - an old ReplicaSet shrinks by no more pods than can be spared,
//! - no more pods are deleted than exceed a ReplicaSet's size.
//!
//! Available pods are those in the status of ReplicaSets, as in Kubernetes. Too few available pods are a violation only
//! if nothing else removed pods: the label `steady` marks Deployments that the user does not shrink, and a condition
//! marks a disrupted pod.

use super::fields::{Deployment, Pod, ReplicaSet};
use super::{Rule, RuleViolation, WriteContext, read};
use crate::controller_caches::{DEPLOYMENTS, REPLICA_SETS, Window};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

const PODS: &str = "/registry/pods/";
/// Annotation of a ReplicaSet with the Deployment's size. If it changes, the Deployment was scaled.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Time for which pods may be missing after something else than the rollout removed one.
const DISRUPTION_PERIOD: SignedDuration = SignedDuration::from_mins(10);

#[derive(Default)]
pub struct Rollouts {
    /// Limits of Deployments, by UID.
    deployments: BTreeMap<String, Limits>,
    /// Past states of ReplicaSets, by key.
    replica_sets: BTreeMap<String, ReplicaSetHistory>,
    pods: BTreeMap<String, PodState>,
}

struct Limits {
    steady: bool,
    /// A revision with the most pods and the least available pods from then on, for each change of these limits.
    by_revision: Vec<(u64, i64, i64)>,
    /// Time at which something else than the rollout last removed a pod.
    disrupted_at: Option<Timestamp>,
}

#[derive(Default)]
struct ReplicaSetHistory {
    /// A revision with the state from then on, for each change that the rule checks; `None` for a deletion.
    states: Vec<(u64, Option<ReplicaSetState>)>,
    /// Revision of the last write, whether the rule checks the change or not.
    modified: u64,
}

#[derive(Clone, PartialEq)]
struct ReplicaSetState {
    uid: String,
    deployment: String,
    replicas: i64,
    available: i64,
    /// The Deployment's size when this ReplicaSet was scaled.
    desired: Option<String>,
}

struct PodState {
    /// UID of the ReplicaSet.
    replica_set: String,
    serves: bool,
    is_active: bool,
    is_deleting: bool,
}

impl ReplicaSetHistory {
    fn as_of(&self, revision: u64) -> Option<&ReplicaSetState> {
        let until = self.states.partition_point(|(since, _)| *since <= revision);
        self.states[..until].last().and_then(|(_, set)| set.as_ref())
    }

    fn now(&self) -> Option<&ReplicaSetState> {
        self.states.last().and_then(|(_, set)| set.as_ref())
    }

    /// Returns true if a Deployment owns or owned the ReplicaSet.
    fn is_of(&self, deployment: &str) -> bool {
        self.states.iter().flat_map(|(_, set)| set).any(|set| set.deployment == deployment)
    }
}

impl Limits {
    fn record(&mut self, revision: u64, most: i64, least: i64) {
        if self.by_revision.last().is_none_or(|(_, m, l)| (*m, *l) != (most, least)) {
            self.by_revision.push((revision, most, least));
        }
    }

    /// Returns the widest limits in a window: the most pods and the least available pods.
    fn within(&self, window: Window) -> (i64, i64) {
        let from = self.by_revision.partition_point(|(since, ..)| *since <= window.since.deployments);
        let to = self.by_revision.partition_point(|(since, ..)| *since <= window.until.deployments);
        // The cache has some version of the Deployment, since the controller scales for it.
        let possible = &self.by_revision[from.saturating_sub(1)..to.max(1)];
        let most = possible.iter().map(|(_, most, _)| *most).max();
        (most.unwrap_or(0), possible.iter().map(|(.., least)| *least).min().unwrap_or(0))
    }
}

/// Returns the number that a limit such as `3` or `25%` stands for.
fn resolved(value: &Value, replicas: i64, round_up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match percent {
        Some(percent) if round_up => (replicas * percent + 99) / 100,
        Some(percent) => replicas * percent / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

/// Returns the most pods and the least available pods of a Deployment.
fn limits(deployment: &Deployment) -> (i64, i64) {
    let replicas = deployment.spec.replicas;
    let rolling = &deployment.spec.strategy.rolling_update;
    let surge = resolved(&rolling.max_surge, replicas, true);
    let mut unavailable = resolved(&rolling.max_unavailable, replicas, false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1; // otherwise nothing could ever be replaced
    }
    (replicas + surge, replicas - unavailable)
}

impl Rollouts {
    fn check_deployment(&mut self, key: &str, value: Option<&[u8]>, revision: u64) -> Result<(), RuleViolation> {
        let Some(deployment) = read::<Deployment>(key, value)? else { return Ok(()) };
        let (most, least) = limits(&deployment);
        let known = self.deployments.entry(deployment.metadata.uid.clone());
        let known = known.or_insert(Limits { steady: false, by_revision: Vec::new(), disrupted_at: None });
        known.steady = deployment.metadata.labels.contains_key("steady");
        known.record(revision, most, least);
        Ok(())
    }

    fn check_replica_set(
        &mut self,
        key: &str,
        value: Option<&[u8]>,
        context: WriteContext<'_>,
    ) -> Result<(), RuleViolation> {
        let set = read::<ReplicaSet>(key, value)?.map(|set| ReplicaSetState {
            uid: set.metadata.uid.clone(),
            deployment: set.metadata.controller().unwrap_or_default().to_owned(),
            replicas: set.spec.replicas,
            available: set.status.available_replicas,
            desired: set.metadata.annotations.get(DESIRED_REPLICAS).cloned(),
        });
        let past = self.replica_sets.entry(key.to_owned()).or_default();
        let (before, updated_version) = (past.now().cloned(), past.modified);
        past.modified = context.revision;
        if before == set {
            return Ok(());
        }
        past.states.push((context.revision, set.clone()));
        let Some(set) = set else { return Ok(()) };
        let Some(limits) = self.deployments.get(&set.deployment) else { return Ok(()) };
        let mut window = self.window(&set.deployment, context);
        // A write with an older version would have been refused.
        window.raise_to(updated_version);
        let from = before.as_ref().map_or(0, |before| before.replicas);
        if set.replicas > from {
            return self.check_growth(key, &set, limits, window);
        }
        match before {
            // Scaling a Deployment down removes pods legitimately.
            Some(before) if set.replicas < from && limits.steady && before.desired == set.desired => {
                self.check_shrinking(key, &set, limits, window)
            }
            _ => Ok(()),
        }
    }

    fn check_growth(
        &self,
        key: &str,
        set: &ReplicaSetState,
        limits: &Limits,
        window: Window,
    ) -> Result<(), RuleViolation> {
        let (most, _) = limits.within(window);
        let others: Vec<(&String, &ReplicaSetHistory)> =
            self.of(&set.deployment).filter(|(other, _)| *other != key).collect();
        let of_others =
            |revision| others.iter().filter_map(move |(_, past)| past.as_of(revision)).map(|set| set.replicas);
        let totals =
            self.views(&set.deployment, window).into_iter().map(|view| set.replicas + of_others(view).sum::<i64>());
        let total = totals.min().unwrap_or(0);
        if total > most {
            let what = format!("{key} grew to {}: {total} pods in all, where {most} is the most", set.replicas);
            return Err(RuleViolation::about(what, others.into_iter().map(|(key, _)| key.clone())));
        }
        Ok(())
    }

    fn check_shrinking(
        &self,
        key: &str,
        set: &ReplicaSetState,
        limits: &Limits,
        window: Window,
    ) -> Result<(), RuleViolation> {
        let (_, least) = limits.within(window);
        let left =
            self.views(&set.deployment, window).into_iter().map(|view| self.serving_after(&set.deployment, view));
        match left.max() {
            Some(left) if left < least => {
                let what =
                    format!("{key} shrank to {}: {left} pods serve then, where {least} is the least", set.replicas);
                Err(RuleViolation::about(what, self.of(&set.deployment).map(|(key, _)| key.clone())))
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of available pods once all ReplicaSets have their present sizes, if they had the states as of
    /// a revision before. Pods that are not available are removed first. Returns `i64::MAX` if no available pod is
    /// removed, since that is never a violation.
    fn serving_after(&self, deployment: &str, view: u64) -> i64 {
        let (mut serving, mut removed_serving) = (0, 0);
        for (_, past) in self.of(deployment) {
            let Some(before) = past.as_of(view) else { continue };
            let removed = before.replicas - past.now().map_or(0, |now| now.replicas);
            let unavailable = (before.replicas - before.available).max(0);
            serving += before.available;
            removed_serving += (removed - unavailable).max(0);
        }
        if removed_serving == 0 { i64::MAX } else { serving - removed_serving }
    }

    /// Returns the window of the reconcile that wrote a ReplicaSet of this Deployment.
    fn window(&self, deployment: &str, context: WriteContext<'_>) -> Window {
        context.writer.map_or(Window::ANY, |writer| writer.window(self.of(deployment).map(|(key, _)| key)))
    }

    /// Returns the revisions in a window that the cache may have had: its begin, and each change of the Deployment's
    /// ReplicaSets.
    fn views(&self, deployment: &str, window: Window) -> Vec<u64> {
        let (since, until) = (window.since.replica_sets, window.until.replica_sets);
        let changes = self.of(deployment).flat_map(|(_, past)| past.states.iter().map(|(at, _)| *at));
        std::iter::once(since).chain(changes.filter(|at| (since + 1..=until).contains(at))).collect()
    }

    /// Returns the ReplicaSets of a Deployment.
    fn of<'a>(&'a self, deployment: &'a str) -> impl Iterator<Item = (&'a String, &'a ReplicaSetHistory)> + 'a {
        self.replica_sets.iter().filter(move |(_, past)| past.is_of(deployment))
    }

    fn check_pod(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation> {
        let pod = read::<Pod>(key, value)?;
        let serving = pod.as_ref().map(|pod| {
            let is_active = !pod.metadata.is_deleting() && !pod.has_ended();
            PodState {
                replica_set: pod.metadata.controller().unwrap_or_default().to_owned(),
                serves: is_active && pod.has_condition("Ready"),
                is_active,
                is_deleting: pod.metadata.is_deleting(),
            }
        });
        let before = match serving {
            Some(serving) => self.pods.insert(key.to_owned(), serving),
            None => self.pods.remove(key),
        };
        let Some(before) = before.filter(|before| before.serves) else { return Ok(()) };
        let after = self.pods.get(key);
        if after.is_some_and(|after| after.serves) {
            return Ok(());
        }
        let is_owner = |past: &&ReplicaSetHistory| past.now().is_some_and(|set| set.uid == before.replica_set);
        let Some(past) = self.replica_sets.values().find(is_owner) else { return Ok(()) };
        let deployment = past.now().map(|set| set.deployment.as_str()).unwrap_or_default();
        // The ReplicaSet controller writes no sizes, so no answered write bounds its versions.
        let window =
            context.writer.map_or(Window::ANY, |writer| Window { since: writer.delivered, until: writer.delivered });
        let sizes = self.views(deployment, window).into_iter().filter_map(|view| past.as_of(view));
        let wanted = sizes.map(|set| set.replicas).min().unwrap_or(0);
        let Some(limits) = self.deployments.get_mut(deployment).filter(|limits| limits.steady) else {
            return Ok(());
        };
        let disrupted = pod.as_ref().is_none_or(|pod| pod.has_condition("DisruptionTarget"));
        if disrupted || !after.is_some_and(|after| after.is_deleting) {
            limits.disrupted_at = Some(context.at);
        }
        if limits.disrupted_at.is_some_and(|at| context.at.duration_since(at) < DISRUPTION_PERIOD) {
            return Ok(());
        }
        let pods = self.pods.iter().filter(|(_, pod)| pod.replica_set == before.replica_set);
        let active = pods.clone().filter(|(_, pod)| pod.is_active).count();
        if i64::try_from(active).unwrap_or(i64::MAX) < wanted {
            let what = format!("{key} was taken away: {active} pods are left, where {wanted} are wanted");
            return Err(RuleViolation::about(what, pods.map(|(key, _)| key.clone())));
        }
        Ok(())
    }
}

impl Rule for Rollouts {
    fn prefixes(&self) -> &'static [&'static str] {
        &[DEPLOYMENTS, REPLICA_SETS, PODS]
    }

    fn check(&mut self, key: &str, value: Option<&[u8]>, context: WriteContext<'_>) -> Result<(), RuleViolation> {
        if key.starts_with(DEPLOYMENTS) {
            return self.check_deployment(key, value, context.revision);
        }
        if key.starts_with(PODS) {
            self.check_pod(key, value, context)
        } else {
            self.check_replica_set(key, value, context)
        }
    }
}
