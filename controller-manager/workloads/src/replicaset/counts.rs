//! `Counts`, how many of a replica set's pods are in which state.
//!
//! Corresponds to the loop over pods in calculateStatus of pkg/controller/replicaset/replica_set_utils.go.

use super::replicated::Replicated;
use controller_base::clock;
use controller_base::pod_state::{Activity, PodState};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The pods that refer to the owner and that its selector matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods that are neither terminal nor being deleted. The next counts are parts of it.
    pub active: usize,
    /// Pods with all labels of the template.
    pub fully_labeled: usize,
    pub ready: usize,
    /// When each ready pod became ready, if that is known. Read only if the owner has `minReadySeconds`.
    pub ready_since: Vec<Timestamp>,
    /// Pods that are being deleted and are not terminal.
    pub terminating: usize,
}

impl Counts {
    /// Adds pods that are in one state.
    pub fn add<T: Replicated>(&mut self, owner: &T, state: &PodState, pods: usize) {
        match state.activity {
            Activity::Terminal => {}
            Activity::Terminating => self.terminating += pods,
            Activity::Active => {
                self.active += pods;
                if is_fully_labeled(owner, &state.labels) {
                    self.fully_labeled += pods;
                }
                if state.is_ready {
                    self.ready += pods;
                }
            }
        }
    }

    /// Returns the number of pods that have been ready for at least `min_ready_seconds`.
    pub fn available(&self, min_ready_seconds: i32, now: Timestamp) -> usize {
        if min_ready_seconds <= 0 {
            return self.ready;
        }
        self.availabilities(min_ready_seconds).filter(|available| *available <= now).count()
    }

    /// Returns the time until the next ready pod becomes available; `None` if all are.
    pub fn next_availability(&self, min_ready_seconds: i32, now: Timestamp) -> Option<Duration> {
        if min_ready_seconds <= 0 {
            return None;
        }
        let next = self.availabilities(min_ready_seconds).filter(|available| *available > now).min();
        next.map(|available| clock::until(available, now))
    }

    /// Returns when each ready pod becomes available.
    fn availabilities(&self, min_ready_seconds: i32) -> impl Iterator<Item = Timestamp> {
        self.ready_since.iter().map(move |since| clock::after(*since, min_ready_seconds.into()))
    }
}

fn is_fully_labeled<T: Replicated>(owner: &T, labels: &BTreeMap<String, String>) -> bool {
    let wanted = owner.template().and_then(|template| template.metadata.as_ref()?.labels.as_ref());
    wanted.into_iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
}
