//! `Attempt`, one try to schedule a pod: what the cycle was given, and what came of it.

use crate::document::{GroupPreemption, Summary};
use jiff::Timestamp;
use parking_lot::Mutex;
use scheduling_framework::cache::{Namespaces, Snapshot};
use scheduling_framework::cycle::Decision;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::timings::PointTiming;
use scheduling_framework::{EXTENDER, FitError, Nominated, Nomination, Profile, Rejection, Rejections};
use std::sync::Arc;
use std::time::Duration;

/// A move of the pod through the queue before the attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueMove {
    /// Time from the move to the attempt.
    pub before: Duration,
    /// The part of the queue that the pod entered.
    pub queue: &'static str,
    /// The event that moved it.
    pub event: &'static str,
}

pub enum Outcome {
    Found(Decision),
    NotFound {
        error: FitError,
        nomination: Nomination,
        /// Keys of the pods to evict.
        victims: Vec<String>,
    },
    /// The cycle ended with an error, for example of an extender.
    Failed(String),
}

pub struct Attempt {
    /// Number of the attempt since the scheduler started. The recorder sets it.
    pub id: u64,
    pub at: Timestamp,
    /// Time from the beginning of the cycle to its decision.
    pub took: Duration,
    pub pod: Arc<PodInfo>,
    /// Number of this pod's attempt, from 1.
    pub number: u32,
    /// The way through the queue since the last attempt.
    pub moves: Vec<QueueMove>,
    /// Plugins that rejected the pod in its last attempt.
    pub rejected_by: Vec<&'static str>,
    pub profile: Arc<Profile>,
    pub namespaces: Namespaces,
    pub nominated: Nominated,
    /// Index of the node at which the search began.
    pub next_start: usize,
    pub timings: Vec<PointTiming>,
    pub outcome: Outcome,
    /// What preemption for the pod's PodGroup has come to. The attempts of the group share it.
    pub group_preemption: Mutex<Option<Arc<GroupPreemption>>>,
    /// What happened after the decision.
    pub end: Mutex<Option<String>>,
}

impl Attempt {
    /// Returns the node that the cycle chose.
    pub fn node(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Found(decision) => Some(&decision.node),
            Outcome::NotFound { .. } | Outcome::Failed(_) => None,
        }
    }

    /// Returns the rejection that the cycle gave a node of the attempt's snapshot.
    pub fn rejection(&self, snapshot: &Snapshot, node: &str) -> Option<&Rejection> {
        let number = snapshot.index_of(node)?;
        match &self.outcome {
            Outcome::Found(decision) => decision.rejections.of(number),
            Outcome::NotFound { error: FitError::NoFit { diagnosis, .. }, .. } => diagnosis.rejections.of(number),
            Outcome::NotFound { .. } | Outcome::Failed(_) => None,
        }
    }

    /// Returns true if extenders have rejected or scored nodes.
    pub fn had_extenders(&self) -> bool {
        let rejected = |rejections: &Rejections| rejections.counts().any(|(rejection, _)| rejection.plugin == EXTENDER);
        match &self.outcome {
            Outcome::Found(decision) => {
                rejected(&decision.rejections) || decision.scores.iter().any(|scores| scores.plugin == EXTENDER)
            }
            Outcome::NotFound { error: FitError::NoFit { diagnosis, .. }, .. } => rejected(&diagnosis.rejections),
            Outcome::NotFound { .. } | Outcome::Failed(_) => false,
        }
    }

    pub fn summary(&self) -> Summary {
        let (result, message) = match &self.outcome {
            Outcome::Found(_) => ("scheduled", String::new()),
            Outcome::NotFound { error, .. } => ("unschedulable", error.to_string()),
            Outcome::Failed(message) => ("error", message.clone()),
        };
        Summary {
            id: self.id,
            at: self.at.to_string(),
            pod: self.pod.key.clone(),
            uid: self.pod.uid().to_owned(),
            attempt: self.number,
            profile: self.profile.scheduler_name.clone(),
            result: result.to_owned(),
            node: self.node().unwrap_or_default().to_owned(),
            message,
            end: self.end.lock().clone().unwrap_or_default(),
        }
    }

    /// Returns about how much memory the attempt needs, without what it shares with the scheduler's cache.
    pub fn bytes(&self) -> usize {
        /// Numbers of a node and of its rejection.
        const OF_NODE: usize = 8;
        let outcome = match &self.outcome {
            Outcome::Found(decision) => {
                let scores = decision.scores.iter().map(|plugin| plugin.scores.len() * size_of::<i64>());
                scores.sum::<usize>() + OF_NODE * (decision.feasible.len() + decision.rejections.len())
            }
            Outcome::NotFound { error: FitError::NoFit { diagnosis, .. }, .. } => OF_NODE * diagnosis.rejections.len(),
            Outcome::NotFound { .. } | Outcome::Failed(_) => 0,
        };
        size_of::<Self>() + self.moves.len() * size_of::<QueueMove>() + outcome
    }
}
