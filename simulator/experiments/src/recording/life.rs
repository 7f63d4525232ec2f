//! The life of a pod, made of what a recording shows of it.

use super::Remarks;
use super::sighting::Sighting;
use crate::workload::finished;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::metav1::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// A pod from its creation to its end.
#[derive(Clone, Debug)]
pub(crate) struct Life {
    pub pod: Pod,
    pub created: Time,
    pub started: Option<Time>,
    pub ended: Option<Time>,
}

/// The lives seen so far. A name may have several, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Lives {
    lives: Vec<Life>,
    latest: BTreeMap<String, usize>,
    /// Sightings of pods whose creation the recording does not have.
    unborn: usize,
}

impl Lives {
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    pub fn add(&mut self, sighting: Sighting) {
        match sighting {
            Sighting::Object { pod, created } => self.see(*pod, created),
            Sighting::Bound { key, at } => {
                if let Some(life) = self.of(&key) {
                    life.started.get_or_insert(at);
                }
            }
            Sighting::Deleted { key, at } => {
                if let Some(life) = self.of(&key) {
                    life.ended.get_or_insert(at);
                }
            }
        }
    }

    fn of(&mut self, key: &str) -> Option<&mut Life> {
        let index = self.latest.get(key).copied();
        if index.is_none() {
            self.unborn += 1;
        }
        index.map(|index| &mut self.lives[index])
    }

    fn see(&mut self, pod: Pod, created: Option<Time>) {
        let key = pod.key();
        let is_other = |life: &Life| {
            let (one, other) = (&life.pod.metadata.uid, &pod.metadata.uid);
            created.is_some() || (one.is_some() && other.is_some() && one != other)
        };
        let known = self.latest.get(&key).copied().filter(|index| !is_other(&self.lives[*index]));
        let index = match (known, created.or_else(|| pod.metadata.creation_timestamp.clone())) {
            (Some(index), _) => index,
            (None, Some(created)) if pod.spec.is_some() => {
                self.lives.push(Life { pod: pod.clone(), created, started: None, ended: None });
                self.latest.insert(key, self.lives.len() - 1);
                self.lives.len() - 1
            }
            (None, _) => {
                self.unborn += 1;
                return;
            }
        };
        let life = &mut self.lives[index];
        if let Some(status) = &pod.status {
            // The kubelet's word is better than the time of the binding.
            life.started = status.start_time.clone().or(life.started.take());
            life.ended = finished(status).or(life.ended.take());
        }
        if let Some(at) = asked_to_end(&pod) {
            life.ended.get_or_insert(at);
        }
    }

    /// Returns the lives, and remarks how many are missing.
    pub fn finished(self, remarks: &mut Remarks) -> Vec<Life> {
        (0..self.unborn)
            .for_each(|_| remarks.add("sightings of pods whose creation is not in the recording were left out"));
        self.lives
    }
}

/// Returns when somebody deleted the pod: `deletionTimestamp` lies a grace period later.
fn asked_to_end(pod: &Pod) -> Option<Time> {
    let deletion = pod.metadata.deletion_timestamp.as_ref()?;
    let grace_s = u64::try_from(pod.metadata.deletion_grace_period_seconds.unwrap_or_default()).unwrap_or_default();
    deletion.0.checked_sub(Duration::from_secs(grace_s)).ok().map(Time)
}
