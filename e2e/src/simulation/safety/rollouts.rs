//! A rolling update keeps to its limits: never more pods wanted than the surge allows, never too few serving.
//!
//! Kubernetes promises that of what its controllers know. The Deployment controller reads deployments and replica sets
//! from two caches that lag each by itself, keeps no account of its own writes (those that do, since v1.36, are the
//! controllers of replica sets, daemon sets, stateful sets and jobs), and learns what serves from the status that the
//! replica set's controller wrote before it deleted pods. So with a cache that lags it makes a second replica set beside
//! one that it has not been shown, and it takes serving pods for present that are about to go. Each step is therefore
//! judged by what may have been known: a replica set grows within the surge, an old one shrinks by no more than the
//! pods that are to spare, and of a replica set no more pods are deleted than are too many.
//!
//! Whoever resizes may have seen an older deployment, too; what counts is the widest limit of the last minutes. That too
//! few serve is held against a rollout only where nothing else took pods away: a deployment says so by the label
//! `steady`, and a pod that was disrupted by a condition.

use super::seen::{Deployment, Pod, ReplicaSet};
use super::{Complaint, Rule, When, read};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

const DEPLOYMENTS: &str = "/registry/deployments/";
const REPLICA_SETS: &str = "/registry/replicasets/";
const PODS: &str = "/registry/pods/";
/// What a replica set's size was a part of: another number says that the deployment was scaled.
const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// How long an older deployment may be taken for the present one.
const MEMORY: SignedDuration = SignedDuration::from_mins(10);

#[derive(Default)]
pub struct Rollouts {
    /// By uid.
    deployments: BTreeMap<String, Limits>,
    /// By key.
    replica_sets: BTreeMap<String, Past>,
    pods: BTreeMap<String, Serving>,
}

struct Limits {
    steady: bool,
    /// When it came into force, pods at most, pods serving at least.
    recent: Vec<(Timestamp, i64, i64)>,
    disturbed_at: Option<Timestamp>,
}

/// A replica set from each revision on that changed what matters here; `None` where it is gone.
#[derive(Default)]
struct Past(Vec<(u64, Option<Sized>)>);

#[derive(Clone, PartialEq)]
struct Sized {
    uid: String,
    deployment: String,
    replicas: i64,
    available: i64,
    /// Of the deployment, when this one was sized.
    desired: Option<String>,
}

struct Serving {
    replica_set: String,
    serves: bool,
    is_active: bool,
    is_deleting: bool,
}

impl Past {
    fn as_of(&self, revision: u64) -> Option<&Sized> {
        let until = self.0.partition_point(|(since, _)| *since <= revision);
        self.0[..until].last().and_then(|(_, set)| set.as_ref())
    }

    fn now(&self) -> Option<&Sized> {
        self.0.last().and_then(|(_, set)| set.as_ref())
    }

    /// Whose it is or was.
    fn is_of(&self, deployment: &str) -> bool {
        self.0.iter().flat_map(|(_, set)| set).any(|set| set.deployment == deployment)
    }
}

impl Limits {
    fn note(&mut self, now: Timestamp, most: i64, least: i64) {
        if self.recent.last().is_some_and(|(_, m, l)| (*m, *l) == (most, least)) {
            return;
        }
        self.recent.push((now, most, least));
        // What came into force before the window still held in it until the next did.
        let since = now - MEMORY;
        let first = self.recent.partition_point(|(at, ..)| *at < since).saturating_sub(1);
        self.recent.drain(..first);
    }
}

/// `3` or `25%` of the replicas.
fn scaled(value: &Value, replicas: i64, round_up: bool) -> i64 {
    let percent = value.as_str().and_then(|text| text.strip_suffix('%')?.parse::<i64>().ok());
    match percent {
        Some(percent) if round_up => (replicas * percent + 99) / 100,
        Some(percent) => replicas * percent / 100,
        None => value.as_i64().unwrap_or(0),
    }
}

/// Pods at most and pods serving at least.
fn limits(deployment: &Deployment) -> (i64, i64) {
    let replicas = deployment.spec.replicas;
    let rolling = &deployment.spec.strategy.rolling_update;
    let surge = scaled(&rolling.max_surge, replicas, true);
    let mut unavailable = scaled(&rolling.max_unavailable, replicas, false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1; // otherwise nothing could ever be replaced
    }
    (replicas + surge, replicas - unavailable)
}

impl Rollouts {
    fn judge_deployment(&mut self, key: &str, value: Option<&[u8]>, now: Timestamp) -> Result<(), Complaint> {
        let Some(deployment) = read::<Deployment>(key, value)? else { return Ok(()) };
        let (most, least) = limits(&deployment);
        let known = self.deployments.entry(deployment.metadata.uid.clone());
        let known = known.or_insert(Limits { steady: false, recent: Vec::new(), disturbed_at: None });
        known.steady = deployment.metadata.labels.contains_key("steady");
        known.note(now, most, least);
        Ok(())
    }

    fn judge_replica_set(&mut self, key: &str, value: Option<&[u8]>, when: When) -> Result<(), Complaint> {
        let set = read::<ReplicaSet>(key, value)?.map(|set| Sized {
            uid: set.metadata.uid.clone(),
            deployment: set.metadata.controller().unwrap_or_default().to_owned(),
            replicas: set.spec.replicas,
            available: set.status.available_replicas,
            desired: set.metadata.annotations.get(DESIRED_REPLICAS).cloned(),
        });
        let past = self.replica_sets.entry(key.to_owned()).or_default();
        let before = past.now().cloned();
        if before == set {
            return Ok(());
        }
        past.0.push((when.revision, set.clone()));
        let Some(set) = set else { return Ok(()) };
        let Some(limits) = self.deployments.get(&set.deployment) else { return Ok(()) };
        let from = before.as_ref().map_or(0, |before| before.replicas);
        if set.replicas > from {
            return self.judge_growth(key, &set, limits, when);
        }
        match before {
            // Who scales a deployment down takes pods away by right.
            Some(before) if set.replicas < from && limits.steady && before.desired == set.desired => {
                self.judge_shrinking(key, &set, limits, when)
            }
            _ => Ok(()),
        }
    }

    fn judge_growth(&self, key: &str, set: &Sized, limits: &Limits, when: When) -> Result<(), Complaint> {
        let most = limits.recent.iter().map(|(_, most, _)| *most).max().unwrap_or(0);
        let others: Vec<(&String, &Past)> = self.of(&set.deployment).filter(|(other, _)| *other != key).collect();
        let of_others =
            |revision| others.iter().filter_map(move |(_, past)| past.as_of(revision)).map(|set| set.replicas);
        let totals =
            self.views(&set.deployment, when).into_iter().map(|view| set.replicas + of_others(view).sum::<i64>());
        let total = totals.min().unwrap_or(0);
        if total > most {
            let what = format!("{key} grew to {}: {total} pods in all, where {most} is the most", set.replicas);
            return Err(Complaint::about(what, others.into_iter().map(|(key, _)| key.clone())));
        }
        Ok(())
    }

    fn judge_shrinking(&self, key: &str, set: &Sized, limits: &Limits, when: When) -> Result<(), Complaint> {
        let least = limits.recent.iter().map(|(_, _, least)| *least).min().unwrap_or(0);
        let left = self.views(&set.deployment, when).into_iter().map(|view| self.serving_after(&set.deployment, view));
        match left.max() {
            Some(left) if left < least => {
                let what =
                    format!("{key} shrank to {}: {left} pods serve then, where {least} is the least", set.replicas);
                Err(Complaint::about(what, self.of(&set.deployment).map(|(key, _)| key.clone())))
            }
            _ => Ok(()),
        }
    }

    /// How many pods serve when every replica set has its present size, going by what was known as of a revision. Pods
    /// that do not serve are the first to go. Where none that serves is taken away there is nothing to complain of.
    fn serving_after(&self, deployment: &str, view: u64) -> i64 {
        let (mut serving, mut taken) = (0, 0);
        for (_, past) in self.of(deployment) {
            let Some(known) = past.as_of(view) else { continue };
            let gone = known.replicas - past.now().map_or(0, |now| now.replicas);
            let idle = (known.replicas - known.available).max(0);
            serving += known.available;
            taken += (gone - idle).max(0);
        }
        if taken == 0 { i64::MAX } else { serving - taken }
    }

    /// The revisions as of which whoever wrote now may have known the replica sets of a deployment.
    fn views(&self, deployment: &str, when: When) -> Vec<u64> {
        let changes = self.of(deployment).flat_map(|(_, past)| past.0.iter().map(|(since, _)| *since));
        let changes = changes.filter(|since| (when.known.saturating_add(1)..when.revision).contains(since));
        std::iter::once(when.known.min(when.revision - 1)).chain(changes).collect()
    }

    fn of<'a>(&'a self, deployment: &'a str) -> impl Iterator<Item = (&'a String, &'a Past)> + 'a {
        self.replica_sets.iter().filter(move |(_, past)| past.is_of(deployment))
    }

    fn judge_pod(&mut self, key: &str, value: Option<&[u8]>, when: When) -> Result<(), Complaint> {
        let pod = read::<Pod>(key, value)?;
        let serving = pod.as_ref().map(|pod| {
            let is_active = !pod.metadata.is_deleting() && !pod.has_ended();
            Serving {
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
        let is_owner = |past: &&Past| past.now().is_some_and(|set| set.uid == before.replica_set);
        let Some(past) = self.replica_sets.values().find(is_owner) else { return Ok(()) };
        let deployment = past.now().map(|set| set.deployment.as_str()).unwrap_or_default();
        let sizes = self.views(deployment, when).into_iter().filter_map(|view| past.as_of(view));
        let wanted = sizes.map(|set| set.replicas).min().unwrap_or(0);
        let Some(limits) = self.deployments.get_mut(deployment).filter(|limits| limits.steady) else {
            return Ok(());
        };
        let disrupted = pod.as_ref().is_none_or(|pod| pod.has_condition("DisruptionTarget"));
        if disrupted || !after.is_some_and(|after| after.is_deleting) {
            limits.disturbed_at = Some(when.at);
        }
        if limits.disturbed_at.is_some_and(|at| when.at.duration_since(at) < MEMORY) {
            return Ok(());
        }
        let pods = self.pods.iter().filter(|(_, pod)| pod.replica_set == before.replica_set);
        let active = pods.clone().filter(|(_, pod)| pod.is_active).count();
        if i64::try_from(active).unwrap_or(i64::MAX) < wanted {
            let what = format!("{key} was taken away: {active} pods are left, where {wanted} are wanted");
            return Err(Complaint::about(what, pods.map(|(key, _)| key.clone())));
        }
        Ok(())
    }
}

impl Rule for Rollouts {
    fn prefixes(&self) -> &'static [&'static str] {
        &[DEPLOYMENTS, REPLICA_SETS, PODS]
    }

    fn judge(&mut self, key: &str, value: Option<&[u8]>, when: When) -> Result<(), Complaint> {
        if key.starts_with(DEPLOYMENTS) {
            return self.judge_deployment(key, value, when.at);
        }
        if key.starts_with(PODS) { self.judge_pod(key, value, when) } else { self.judge_replica_set(key, value, when) }
    }
}
