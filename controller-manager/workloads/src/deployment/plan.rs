//! Plans one round over a deployment: the replica sets to create, resize and delete, and the status.
//!
//! Corresponds to syncDeployment in pkg/controller/deployment/deployment_controller.go and the rollout functions that
//! it chooses from. Kubernetes writes during the round; here the round is planned first, and writes each object once.

use super::observe::Observed;
use super::progress::{self, Progress};
use super::rolling::{self, Resize};
use super::status::{self, PROGRESSING, condition_of, set_condition};
use super::{history, recreate, rollback, scale, sizes};
use crate::template_hash::{POD_TEMPLATE_HASH, template_hash};
use client::{Action, DeleteOptions, Plan};
use controller_base::actions;
use controller_base::controller_ref::controller_ref;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use proto::kinds::metav1::ObjectMeta;
use std::time::Duration;

/// Longest name of an object, in characters.
const MAX_NAME: usize = 253;

/// Plans what is due: to adopt replica sets, to roll back, to change the size, or else the next step of the rollout. A
/// deployment that is paused or being deleted is not rolled out.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let claims = &observed.replica_sets;
    if !claims.are_complete() {
        return actions::adopt_and_release(&*observed.deployment, claims, None);
    }
    let mut round = Round::new(observed, now);
    let is_paused = sizes::spec(&round.deployment).paused.unwrap_or(false);
    if observed.deployment.is_deleting() {
        round.sync_existing_new();
        return round.report_counts();
    }
    progress::record_pause(&mut round.deployment, now);
    if is_paused {
        return round.resize_only(true);
    }
    if let Some(revision) = rollback::requested(&observed.deployment) {
        return round.roll_back(revision);
    }
    if scale::is_scaling(&round.deployment, &round.replica_sets) {
        return round.resize_only(false);
    }
    if sizes::is_rolling(&round.deployment) { round.roll() } else { round.recreate(observed) }
}

/// Raises the collision count, and so changes the template hash: an unrelated replica set has the name.
pub fn plan_collision(deployment: &Deployment) -> Plan {
    let mut deployment = deployment.clone();
    let status = deployment.status.get_or_insert_default();
    status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
    Plan::of([Action::update_status(&deployment)])
}

/// Reports that the new replica set could not be created.
pub fn plan_create_failed(deployment: &Deployment, name: &str, cause: &str, now: Timestamp) -> Plan {
    let message = format!("Failed to create new replica set {name:?}: {cause}");
    // The event comes first: what refuses a replica set may refuse the status, too.
    let mut plan = Plan::of([actions::warning(deployment, progress::CREATE_ERROR, message.clone())]);
    let mut updated = deployment.clone();
    if progress::deadline_s(deployment).is_some() {
        let condition = condition_of(PROGRESSING, "False", progress::CREATE_ERROR, message, now);
        set_condition(updated.status.get_or_insert_default(), condition);
        if updated.status != deployment.status {
            plan.push(Action::update_status(&updated));
        }
    }
    plan
}

/// Returns the name of a replica set. It depends on the template alone, so that no replica set is created twice. A long
/// deployment name is cut to leave room for the hash.
fn name_of(deployment: &str, hash: &str) -> String {
    let room = MAX_NAME.saturating_sub(hash.len() + 1);
    format!("{}-{hash}", &deployment[..deployment.len().min(room)])
}

/// Working copies of the objects, and the objects as they were when the round began.
struct Round<'a> {
    before: &'a Deployment,
    before_sets: Vec<&'a ReplicaSet>,
    deployment: Deployment,
    /// Oldest first; a replica set that this round creates is last.
    replica_sets: Vec<ReplicaSet>,
    new: Option<usize>,
    deletions: Vec<Action>,
    now: Timestamp,
}

impl<'a> Round<'a> {
    fn new(observed: &'a Observed, now: Timestamp) -> Self {
        let before_sets: Vec<&ReplicaSet> = observed.replica_sets.owned.iter().map(|set| &**set).collect();
        let replica_sets: Vec<ReplicaSet> = before_sets.iter().map(|set| (*set).clone()).collect();
        let new = history::find_new(&observed.deployment, &replica_sets);
        let before = &*observed.deployment;
        Self { before, before_sets, deployment: before.clone(), replica_sets, new, deletions: Vec::new(), now }
    }

    fn old(&self) -> Vec<ReplicaSet> {
        let old = self.replica_sets.iter().enumerate().filter(|(i, _)| Some(*i) != self.new);
        old.map(|(_, replica_set)| replica_set.clone()).collect()
    }

    /// RollingUpdate: scales the new replica set up, or else the old ones down.
    fn roll(mut self) -> Plan {
        let new = self.get_or_create_new();
        if let Some(size) = rolling::scale_up(&self.deployment, &self.replica_sets[new], &self.old()) {
            self.resize(&[(new, size)]);
            return self.report_rollout();
        }
        // `scale_down` returns indexes into the list of old replica sets, which lacks the new one.
        let resized = rolling::scale_down(&self.deployment, &self.replica_sets[new], &self.old());
        let resized: Vec<Resize> =
            resized.into_iter().map(|(i, size)| (if i < new { i } else { i + 1 }, size)).collect();
        if resized.is_empty() {
            self.delete_old_if_complete();
        }
        self.resize(&resized);
        self.report_rollout()
    }

    /// Recreate: scales the old replica sets to zero, waits for their pods to end, and then scales the new one up.
    fn recreate(mut self, observed: &Observed) -> Plan {
        self.sync_existing_new();
        let active: Vec<Resize> = (0..self.replica_sets.len())
            .filter(|&i| Some(i) != self.new && sizes::size(&self.replica_sets[i]) > 0)
            .map(|i| (i, 0))
            .collect();
        if !active.is_empty() {
            self.resize(&active);
            return self.report_rollout();
        }
        let new = self.new.map(|new| &self.replica_sets[new]);
        if recreate::old_pods_running(new, &self.old(), &observed.pods) {
            return self.report_rollout();
        }
        let new = self.get_or_create_new();
        self.resize(&[(new, sizes::replicas(&self.deployment))]);
        self.delete_old_if_complete();
        self.report_rollout()
    }

    /// Resizes the replica sets of a deployment that is scaled or paused. Templates do not change.
    fn resize_only(mut self, is_paused: bool) -> Plan {
        self.sync_existing_new();
        let resized = scale::resize(&self.deployment, &self.replica_sets, self.new);
        self.resize(&resized);
        for replica_set in self.replica_sets.iter_mut().filter(|set| sizes::size(set) > 0) {
            scale::annotate_size(&self.deployment, replica_set);
        }
        if is_paused && rollback::requested(self.before).is_none() {
            self.delete_old();
        }
        self.report_counts()
    }

    fn roll_back(mut self, revision: i64) -> Plan {
        if self.new.is_none() {
            // The present template needs a revision before the previous one can be found.
            self.get_or_create_new();
            return self.report_rollout();
        }
        let rollback = rollback::plan(self.before, &self.replica_sets, revision);
        let event = if rollback.is_warning { actions::warning } else { actions::normal };
        let event = event(self.before, rollback.reason, rollback.message);
        Plan::of([Action::update(&rollback.deployment), event])
    }

    /// Returns the index of the new replica set, and creates it if there is none.
    fn get_or_create_new(&mut self) -> usize {
        if let Some(new) = self.new {
            self.sync_existing_new();
            return new;
        }
        let replica_set = self.create_new();
        if progress::deadline_s(&self.deployment).is_some() {
            let message = format!("Created new replica set {:?}", replica_set.name());
            let condition = condition_of(PROGRESSING, "True", progress::NEW_CREATED, message, self.now);
            set_condition(self.deployment.status.get_or_insert_default(), condition);
        }
        self.set_revision(&replica_set);
        self.replica_sets.push(replica_set);
        let new = self.replica_sets.len() - 1;
        self.new = Some(new);
        new
    }

    fn create_new(&self) -> ReplicaSet {
        let spec = sizes::spec(&self.deployment);
        let collision_count = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = template_hash(&spec.template, collision_count);
        let mut template = spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
        let mut replica_set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(name_of(self.deployment.name(), &hash)),
                namespace: Some(self.deployment.namespace().to_owned()),
                labels: Some(labels),
                owner_references: Some(vec![controller_ref(&self.deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(sizes::new_size(&self.deployment, sizes::total(&self.replica_sets, sizes::size), 0)),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        history::annotate_new(&self.deployment, &mut replica_set, history::next_revision(&self.replica_sets), true);
        replica_set
    }

    /// Updates the annotations, the revision and `minReadySeconds` of the new replica set, if it exists.
    fn sync_existing_new(&mut self) {
        let Some(new) = self.new else { return };
        let next = history::next_revision(&self.old());
        let mut replica_set = self.replica_sets[new].clone();
        history::annotate_new(&self.deployment, &mut replica_set, next, false);
        if let Some(spec) = &mut replica_set.spec {
            let wanted = sizes::spec(&self.deployment).min_ready_seconds;
            if spec.min_ready_seconds.unwrap_or(0) != wanted.unwrap_or(0) {
                spec.min_ready_seconds = wanted;
            }
        }
        self.set_revision(&replica_set);
        let has_condition = status::find_condition(self.deployment.status.as_ref(), PROGRESSING).is_some();
        if progress::deadline_s(&self.deployment).is_some() && !has_condition {
            let message = format!("Found new replica set {:?}", replica_set.name());
            let condition = condition_of(PROGRESSING, "True", progress::NEW_FOUND, message, self.now);
            set_condition(self.deployment.status.get_or_insert_default(), condition);
        }
        self.replica_sets[new] = replica_set;
    }

    /// Copies the revision of the new replica set to the deployment. The status update writes it, so that the
    /// generation does not change.
    fn set_revision(&mut self, new: &ReplicaSet) {
        if let Some(revision) = sizes::annotation(new, history::REVISION) {
            let annotations = self.deployment.metadata.annotations.get_or_insert_default();
            annotations.insert(history::REVISION.to_owned(), revision.to_owned());
        }
    }

    fn resize(&mut self, sizes: &[Resize]) {
        for (i, size) in sizes {
            let replica_set = &mut self.replica_sets[*i];
            if let Some(spec) = &mut replica_set.spec {
                spec.replicas = Some(*size);
            }
            scale::annotate_size(&self.deployment, replica_set);
        }
    }

    fn delete_old_if_complete(&mut self) {
        if progress::is_complete(self.before, &self.before.status.clone().unwrap_or_default()) {
            self.delete_old();
        }
    }

    fn delete_old(&mut self) {
        let old = self.old();
        let surplus = history::beyond_limit(&self.deployment, &old);
        self.deletions = surplus.into_iter().map(|set| actions::delete(set, DeleteOptions::default())).collect();
    }

    /// Ends the round with a status that reports the rollout's progress.
    fn report_rollout(self) -> Plan {
        let all: Vec<&ReplicaSet> = self.replica_sets.iter().collect();
        let Progress { status, check_after } =
            progress::rollout(&self.deployment, &all, self.new.map(|new| &self.replica_sets[new]), self.now);
        self.finish(status, check_after)
    }

    /// Ends the round with a status of counts alone: a deployment that is scaled, paused or deleted makes no progress.
    fn report_counts(self) -> Plan {
        let all: Vec<&ReplicaSet> = self.replica_sets.iter().collect();
        let new = self.new.map(|new| &self.replica_sets[new]);
        let status = status::calculate(&self.deployment, &all, new, self.now);
        self.finish(status, None)
    }

    fn finish(mut self, status: proto::kinds::api::apps::v1::DeploymentStatus, check_after: Option<Duration>) -> Plan {
        let mut actions = Vec::new();
        for (i, replica_set) in self.replica_sets.iter().enumerate() {
            let before = self.before_sets.get(i).copied();
            match before {
                None => actions.push(Action::create(replica_set)),
                Some(before) if before != replica_set => actions.push(Action::update(replica_set)),
                Some(_) => continue,
            }
            let (from, to) = (before.map_or(0, sizes::size), sizes::size(replica_set));
            if from != to {
                let direction = if to > from { "up" } else { "down" };
                let message = format!("Scaled {direction} replica set {} from {from} to {to}", replica_set.name());
                actions.push(actions::normal(self.before, "ScalingReplicaSet", message));
            }
        }
        actions.append(&mut self.deletions);
        self.deployment.status = Some(status);
        if self.deployment != *self.before {
            actions.push(Action::update_status(&self.deployment));
        }
        Plan { actions, requeue_after: check_after }
    }
}
