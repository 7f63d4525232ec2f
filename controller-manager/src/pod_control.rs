//! Makes and deletes pods for their controller, in growing batches, and says so.
//!
//! Corresponds to RealPodControl in pkg/controller/controller_utils.go and slowStartBatch in
//! pkg/controller/replicaset/replica_set.go.

use crate::actions;
use crate::context::Actor;
use client::{Action, ApplyError, DeleteOptions, Plan, UidExpectations, apply};
use futures::future::join_all;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::Value;
use std::sync::Arc;

/// At most so many pods are made or deleted in one round over one object.
pub const BURST: usize = 500;

#[derive(Clone)]
pub struct PodControl {
    pub actor: Actor,
    /// What the pod informer has still to show.
    pub expectations: UidExpectations,
}

impl PodControl {
    /// In batches of 1, 2, 4, … each of which has to succeed before the next begins. Answers the first error.
    pub async fn create<K: Kind>(&self, key: &str, owner: &K, pods: Vec<Pod>) -> Result<(), ApplyError> {
        if pods.is_empty() {
            return Ok(());
        }
        let mut remaining = pods.len();
        self.expectations.expect_creations(key, remaining);
        let mut left = pods.iter();
        for size in batches(remaining) {
            let batch: Vec<Plan> = left.by_ref().take(size).map(|pod| single(Action::create(pod))).collect();
            let results = join_all(batch.iter().map(|plan| self.carry_out(plan))).await;
            remaining -= size;
            let mut failed = None;
            for result in results {
                match result {
                    Ok(answers) => self.say_created(owner, &answers),
                    Err(error) => {
                        self.expectations.creation_observed(key);
                        self.say_failed(owner, "FailedCreate", "creating", &error);
                        failed.get_or_insert(error);
                    }
                }
            }
            if let Some(error) = failed {
                (0..remaining).for_each(|_| self.expectations.creation_observed(key));
                return Err(error);
            }
        }
        Ok(())
    }

    /// All at once. Answers the first error; a pod that is gone already is none.
    pub async fn delete<K: Kind>(&self, key: &str, owner: &K, pods: &[Arc<Pod>]) -> Result<(), ApplyError> {
        if pods.is_empty() {
            return Ok(());
        }
        self.expectations.expect_deletions(key, pods.iter().map(|pod| pod.uid().to_owned()));
        let delete = |pod: &Arc<Pod>| single(actions::delete(&**pod, DeleteOptions::default()));
        let plans: Vec<Plan> = pods.iter().map(delete).collect();
        let results = join_all(plans.iter().map(|plan| self.carry_out(plan))).await;
        let mut failed = Ok(());
        for (pod, result) in pods.iter().zip(results) {
            match result {
                Ok(_) => {
                    self.say(actions::normal(owner, "SuccessfulDelete", format!("Deleted pod: {}", pod.name())));
                }
                Err(error) => {
                    self.expectations.deletion_observed(key, pod.uid());
                    if !error.cause.is_not_found() {
                        self.say_failed(owner, "FailedDelete", "deleting", &error);
                        failed = failed.and(Err(error));
                    }
                }
            }
        }
        failed
    }

    pub async fn carry_out(&self, plan: &Plan) -> Result<Vec<Value>, ApplyError> {
        apply(&self.actor.client, &self.actor.recorder, plan).await
    }

    fn say_created<K: Kind>(&self, owner: &K, answers: &[Value]) {
        for answer in answers {
            let name = answer["metadata"]["name"].as_str().unwrap_or_default();
            self.say(actions::normal(owner, "SuccessfulCreate", format!("Created pod: {name}")));
        }
    }

    fn say_failed<K: Kind>(&self, owner: &K, reason: &str, doing: &str, error: &ApplyError) {
        if !error.cause.is_namespace_terminating() {
            self.say(actions::warning(owner, reason, format!("Error {doing}: {}", error.cause)));
        }
    }

    fn say(&self, event: Action) {
        if let Action::Event(event) = event {
            self.actor.recorder.record(event);
        }
    }
}

fn single(action: Action) -> Plan {
    Plan { actions: vec![action], requeue_after: None }
}

/// The sizes of the batches in which `count` pods are created: 1, 2, 4, …, so that an error that all of them would
/// meet is met few times.
pub fn batches(count: usize) -> Vec<usize> {
    let mut batches = Vec::new();
    let mut left = count;
    let mut size = 1;
    while left > 0 {
        let batch = size.min(left);
        batches.push(batch);
        left -= batch;
        size *= 2;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_double() {
        let cases: &[(usize, &[usize])] =
            &[(0, &[]), (1, &[1]), (3, &[1, 2]), (10, &[1, 2, 4, 3]), (15, &[1, 2, 4, 8])];
        for (count, expected) in cases {
            assert_eq!(batches(*count), *expected, "{count}");
        }
    }
}
