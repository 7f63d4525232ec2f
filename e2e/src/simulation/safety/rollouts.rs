//! A rolling update keeps to its limits: never more pods wanted than the surge allows, never too few serving.
//!
//! Whoever resizes may have seen an older deployment; what counts is the widest limit of the last minutes. That too
//! few serve is held against a rollout only where nothing else took pods away: a deployment says so by the label
//! `steady`, and a pod that was disrupted by a condition.

use super::seen::{Deployment, Pod, ReplicaSet};
use super::{Complaint, Rule, read};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

const DEPLOYMENTS: &str = "/registry/deployments/";
const REPLICA_SETS: &str = "/registry/replicasets/";
const PODS: &str = "/registry/pods/";
/// How long an older deployment may be taken for the present one.
const MEMORY: SignedDuration = SignedDuration::from_mins(10);

#[derive(Default)]
pub struct Rollouts {
    /// By uid.
    deployments: BTreeMap<String, Limits>,
    /// By key.
    replica_sets: BTreeMap<String, Sized>,
    pods: BTreeMap<String, Serving>,
}

struct Limits {
    steady: bool,
    /// When it came into force, pods at most, pods serving at least.
    recent: Vec<(Timestamp, i64, i64)>,
    disturbed_at: Option<Timestamp>,
}

struct Sized {
    uid: String,
    deployment: String,
    replicas: i64,
}

struct Serving {
    replica_set: String,
    serves: bool,
    is_deleting: bool,
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

    fn judge_replica_set(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Complaint> {
        let Some(set) = read::<ReplicaSet>(key, value)? else {
            self.replica_sets.remove(key);
            return Ok(());
        };
        let deployment = set.metadata.controller().unwrap_or_default().to_owned();
        let size = Sized { uid: set.metadata.uid, deployment: deployment.clone(), replicas: set.spec.replicas };
        let before = self.replica_sets.insert(key.to_owned(), size);
        let grew = set.spec.replicas > before.map_or(0, |before| before.replicas);
        let Some(limits) = self.deployments.get(&deployment).filter(|_| grew) else { return Ok(()) };
        let sets = self.replica_sets.iter().filter(|(_, set)| set.deployment == deployment);
        let total: i64 = sets.clone().map(|(_, set)| set.replicas).sum();
        let most = limits.recent.iter().map(|(_, most, _)| *most).max().unwrap_or(0);
        if total > most {
            let what = format!("{key} grew to {}: {total} pods in all, where {most} is the most", set.spec.replicas);
            return Err(Complaint::about(what, sets.map(|(key, _)| key.clone())));
        }
        Ok(())
    }

    fn judge_pod(&mut self, key: &str, value: Option<&[u8]>, now: Timestamp) -> Result<(), Complaint> {
        let pod = read::<Pod>(key, value)?;
        let serving = pod.as_ref().map(|pod| Serving {
            replica_set: pod.metadata.controller().unwrap_or_default().to_owned(),
            serves: pod.has_condition("Ready") && !pod.metadata.is_deleting() && !pod.has_ended(),
            is_deleting: pod.metadata.is_deleting(),
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
        let sets = self.replica_sets.values();
        let Some(set) = sets.clone().find(|set| set.uid == before.replica_set) else { return Ok(()) };
        let Some(limits) = self.deployments.get_mut(&set.deployment).filter(|limits| limits.steady) else {
            return Ok(());
        };
        let disrupted = pod.as_ref().is_none_or(|pod| pod.has_condition("DisruptionTarget"));
        if disrupted || !after.is_some_and(|after| after.is_deleting) {
            limits.disturbed_at = Some(now);
        }
        if limits.disturbed_at.is_some_and(|at| now.duration_since(at) < MEMORY) {
            return Ok(());
        }
        let of_deployment: Vec<&str> =
            sets.filter(|s| s.deployment == set.deployment).map(|s| s.uid.as_str()).collect();
        let pods = self.pods.iter().filter(|(_, pod)| of_deployment.contains(&pod.replica_set.as_str()));
        let serve = pods.clone().filter(|(_, pod)| pod.serves).count();
        let least = limits.recent.iter().map(|(_, _, least)| *least).min().unwrap_or(0);
        // Only the step below the limit is judged: before a deployment is up for the first time it is below, too.
        if i64::try_from(serve).unwrap_or(i64::MAX) + 1 == least {
            let what = format!("{key} was taken away: {serve} pods serve, where {least} is the least");
            return Err(Complaint::about(what, pods.map(|(key, _)| key.clone())));
        }
        Ok(())
    }
}

impl Rule for Rollouts {
    fn prefixes(&self) -> &'static [&'static str] {
        &[DEPLOYMENTS, REPLICA_SETS, PODS]
    }

    fn judge(&mut self, key: &str, value: Option<&[u8]>, now: Timestamp) -> Result<(), Complaint> {
        if key.starts_with(DEPLOYMENTS) {
            return self.judge_deployment(key, value, now);
        }
        if key.starts_with(PODS) { self.judge_pod(key, value, now) } else { self.judge_replica_set(key, value) }
    }
}
