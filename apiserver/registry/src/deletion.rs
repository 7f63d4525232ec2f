//! Delete: grace periods, finalizers, propagation policies, and the removal from the store.
//!
//! Corresponds to Delete, DeleteCollection and updateForGracefulDeletionAndFinalizers of
//! k8s.io/apiserver/pkg/registry/generic/registry/store.go, and rest.BeforeDelete.

use super::mutation::{Mutation, Written};
use super::row::Row;
use super::{Error, Phase, Registry, Result};
use admission::Operation;
use jiff::{SignedDuration, Timestamp};
use proto::resources::Served;
use proto::{Object, Status};
use request::options::{DeleteOptions, Propagation};
use request::trace::StepOutcome;
use serde_json::{Value, json};
use std::sync::Arc;
use storage::Outcome;
use strategy::Grace;
use strategy::object_meta;
use strategy::object_meta::{FOREGROUND, ORPHAN};

/// Maximum number of attempts of one deletion. An attempt fails only when another writer has changed the object first.
const WRITE_ATTEMPTS: usize = 64;

/// Result of a deletion.
#[derive(Debug)]
pub enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Arc<Object>),
    /// The object waits for its grace period or its finalizers.
    Pending(Arc<Object>),
}

/// The next step of a deletion, decided from the object's current state.
#[derive(Debug, PartialEq)]
enum DeletionStep {
    /// Remove the object from the store.
    Remove,
    /// Write the object with its `deletionTimestamp` and finalizers; then remove it at once if `then_remove` is set.
    Mark { object: Value, then_remove: bool },
    /// Change nothing: the deletion has begun, and this request does not shorten it.
    Wait,
}

impl Registry {
    pub async fn delete(&self, mutation: &mut Mutation<'_>, options: &DeleteOptions) -> Result<Deleted> {
        let row = self.row(&mutation.target.row)?;
        for attempt in 1..=WRITE_ATTEMPTS {
            mutation.attempt(attempt);
            mutation.warnings.clear();
            let current =
                self.current(&row, mutation.namespace, mutation.name).await?.ok_or_else(|| mutation.not_found())?;
            match self.attempt_delete(&row, mutation, options, &current).await? {
                None => {}
                Some(Deleted::Gone(object)) => {
                    return self.convert_one(&row, mutation.target, object).await.map(Deleted::Gone);
                }
                Some(Deleted::Pending(object)) => {
                    return self.convert_one(&row, mutation.target, object).await.map(Deleted::Pending);
                }
            }
        }
        Err(mutation.modified())
    }

    /// Tells whether the value under an object's key cannot be decrypted or decoded.
    pub async fn is_unreadable(&self, mutation: &Mutation<'_>) -> Result<bool> {
        let row = self.row(&mutation.target.row)?;
        match row.cacher.get_latest(mutation.namespace, mutation.name).await {
            Err(cacher::Error::Undecodable { .. }) => Ok(true),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(false),
        }
    }

    /// Removes an unreadable value from the store. Its finalizers cannot be read either, so they do not hold it.
    pub async fn delete_unreadable(&self, mutation: &Mutation<'_>) -> Result<()> {
        let row = self.row(&mutation.target.row)?;
        let key = row.key(mutation.namespace, mutation.name);
        let entry = self.storage.get(&key).await?.entry;
        let entry = entry.ok_or_else(|| mutation.not_found())?;
        match self.storage.delete(&key, entry.mod_revision).await? {
            Outcome::Written { .. } => Ok(()),
            Outcome::Refused(_) => Err(mutation.modified()),
        }
    }

    /// Runs one attempt of a deletion; `None` when another writer changed the object first.
    async fn attempt_delete(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        options: &DeleteOptions,
        current: &Arc<Object>,
    ) -> Result<Option<Deleted>> {
        let mut object = current.to_value();
        let expected = check_preconditions(mutation.served(), mutation.name, options, &object);
        mutation.trace_preconditions(&expected);
        expected?;
        let converted = match mutation.target.shows_as_stored() && row.converter.is_none() {
            true => None,
            false => Some(self.as_served(row, mutation.served(), object.clone()).await?),
        };
        let shown = converted.as_ref().unwrap_or(&object);
        self.admit(Operation::Delete, Phase::Mutating, mutation, None, Some(shown)).await?;
        self.admit(Operation::Delete, Phase::Validating, mutation, None, Some(shown)).await?;
        let grace = {
            let context = self.write_context(mutation, mutation.name);
            if object_meta::deletion_timestamp(&object).is_none() {
                row.strategy.prepare_for_delete(&context, &mut object);
            }
            row.strategy.graceful_delete(&context, &object, options.grace_period_s)
        };
        let step = match grace {
            Grace::UntilEmpty => {
                let is_held = row.strategy.is_held(&object);
                next_step_until_empty(object, options, is_held, self.env.wall())
            }
            grace => next_step(object, options, grace, self.env.wall()),
        };
        let key = row.key(mutation.namespace, mutation.name);
        match step {
            DeletionStep::Wait => {
                mutation.trace_not_written(&key, "its deletion has begun already");
                Ok(Some(Deleted::Pending(current.clone())))
            }
            DeletionStep::Remove => self.remove(row, mutation, &key, current).await,
            DeletionStep::Mark { object, then_remove } => {
                let Some(marked) = self.write_marked(row, mutation, &key, current, object).await? else {
                    return Ok(None);
                };
                if !then_remove {
                    return Ok(Some(Deleted::Pending(marked)));
                }
                self.remove_marked(row, mutation, options, &key, marked).await.map(Some)
            }
        }
    }

    /// Removes an object that this request has marked. Another writer may change it between the mark and the removal.
    /// Then the removal is tried again on the changed object, which still bears the mark.
    async fn remove_marked(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        options: &DeleteOptions,
        key: &str,
        marked: Arc<Object>,
    ) -> Result<Deleted> {
        let mut current = marked.clone();
        for _ in 1..=WRITE_ATTEMPTS {
            if let Some(deleted) = self.remove(row, mutation, key, &current).await? {
                return Ok(deleted);
            }
            current = match self.current(row, mutation.namespace, mutation.name).await? {
                Some(object) if object.index.uid == marked.index.uid => object,
                // Another request has removed it. An object that has its name by now is a new one.
                _ => return Ok(Deleted::Gone(marked)),
            };
            if options.resource_version.is_some() {
                return Err(mutation.conflict(format!(
                    "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                     Precondition failed: ResourceVersion in precondition: {}, ResourceVersion in object meta: {}",
                    marked.revision, current.revision
                )));
            }
            let shown = self.as_served(row, mutation.served(), current.to_value()).await?;
            self.admit(Operation::Delete, Phase::Validating, mutation, None, Some(&shown)).await?;
        }
        Err(mutation.modified())
    }

    /// Writes a marked object; `None` when another writer changed it first.
    async fn write_marked(
        &self,
        row: &Row,
        mutation: &Mutation<'_>,
        key: &str,
        current: &Arc<Object>,
        object: Value,
    ) -> Result<Option<Arc<Object>>> {
        let object = row.object(object, current.revision);
        if mutation.dry_run || object.bytes() == current.bytes() {
            mutation.trace_not_written(key, if mutation.dry_run { "a dry run" } else { "it is as it was" });
            return Ok(Some(Arc::new(object)));
        }
        mutation.steps.inspect(|steps| steps.begin());
        match self.put(row, key, current.revision, &object).await? {
            Outcome::Written { revision, .. } => {
                mutation.trace_storage(key, StepOutcome::Stored, revision);
                Ok(Some(Arc::new(object.at_revision(revision))))
            }
            Outcome::Refused(_) => {
                mutation.trace_storage(key, StepOutcome::Outrun, 0);
                Ok(None)
            }
        }
    }

    /// Removes an object from the store; `None` when another writer changed it first.
    async fn remove(
        &self,
        row: &Row,
        mutation: &Mutation<'_>,
        key: &str,
        current: &Arc<Object>,
    ) -> Result<Option<Deleted>> {
        if mutation.dry_run {
            mutation.trace_not_written(key, "a dry run");
            return Ok(Some(Deleted::Gone(current.clone())));
        }
        mutation.steps.inspect(|steps| steps.begin());
        match self.storage.delete(key, current.revision).await? {
            Outcome::Written { revision, .. } => {
                mutation.trace_storage(key, StepOutcome::Removed, revision);
                row.wait_until_followed(revision).await;
                if let Err(error) = row.strategy.after_delete(current, self).await {
                    // The object is gone all the same. The repair loop releases what it held.
                    tracing::warn!(key, error = error.message, "what a deleted object held is not let go yet");
                }
                Ok(Some(Deleted::Gone(Arc::new(current.copy_at(revision)))))
            }
            Outcome::Refused(_) => {
                mutation.trace_storage(key, StepOutcome::Outrun, 0);
                Ok(None)
            }
        }
    }

    /// Removes an object that is being deleted, after an update has removed its last finalizer.
    pub(super) async fn remove_released(
        &self,
        row: &Row,
        mutation: &Mutation<'_>,
        key: &str,
        current: &Arc<Object>,
        stored: Value,
    ) -> Result<Option<Written>> {
        let last = Arc::new(row.object(stored, current.revision));
        if self.remove(row, mutation, key, current).await?.is_none() {
            let found = self.current(row, mutation.namespace, mutation.name).await?;
            if found.is_some_and(|found| found.index.uid == current.index.uid) {
                return Ok(None);
            }
            // Another writer removed the last finalizer at the same time: the object is gone, as intended.
        }
        Ok(Some(Written { object: last, created: false }))
    }
}

/// Compares the uid and resourceVersion in the options with those of the object. As in Kubernetes, these conflicts name
/// the kind where others name the resource.
pub fn check_preconditions(served: &Served, name: &str, options: &DeleteOptions, object: &Value) -> Result<()> {
    let conflict = |why: String| Err(Error::Conflict(Status::conflict(&served.group, &served.kind, name, why)));
    let (uid, version) = (object_meta::text(object, "uid"), object_meta::text(object, "resourceVersion"));
    if let Some(expected) = options.uid.as_deref().filter(|expected| *expected != uid) {
        return conflict(format!(
            "the UID in the precondition ({expected}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        ));
    }
    if let Some(expected) = options.resource_version.as_deref().filter(|expected| *expected != version) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({expected}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        ));
    }
    Ok(())
}

/// Decides the next step from the object, the request's options and the grace period that the strategy gives.
fn next_step(mut object: Value, options: &DeleteOptions, grace: Grace, now: Timestamp) -> DeletionStep {
    let graceful = match begin_grace(&mut object, options, grace, now) {
        GracefulDeletion::Pending => return DeletionStep::Wait,
        GracefulDeletion::Started(seconds) => Some(seconds),
        GracefulDeletion::Immediate => None,
    };
    let before = object_meta::finalizers(&object);
    let finalizers = finalizers_for(&before, options);
    object_meta::set_finalizers(&mut object, &finalizers);
    match graceful {
        Some(seconds) => DeletionStep::Mark { object, then_remove: finalizers.is_empty() && seconds == 0 },
        None if finalizers.is_empty() => DeletionStep::Remove,
        None => {
            object_meta::mark_deleting(&mut object, now);
            DeletionStep::Mark { object, then_remove: false }
        }
    }
}

/// Decides the next step for a Namespace. The first request marks it, so that its controller removes the objects in it. A
/// later one removes it, unless `spec.finalizers` still hold it.
fn next_step_until_empty(mut object: Value, options: &DeleteOptions, is_held: bool, now: Timestamp) -> DeletionStep {
    if object_meta::deletion_timestamp(&object).is_none() {
        let finalizers = finalizers_for(&object_meta::finalizers(&object), options);
        object_meta::set_finalizers(&mut object, &finalizers);
        object_meta::meta_mut(&mut object).insert("deletionTimestamp".into(), json!(object_meta::time(now)));
        return DeletionStep::Mark { object, then_remove: false };
    }
    if is_held { DeletionStep::Wait } else { next_step(object, options, Grace::None, now) }
}

/// Result of [`begin_grace`].
enum GracefulDeletion {
    /// The object now has a grace period of this many seconds.
    Started(i64),
    /// A grace period already runs, and this request does not shorten it.
    Pending,
    /// There is no grace period.
    Immediate,
}

/// Starts the grace period of an object, or shortens the one that runs.
fn begin_grace(object: &mut Value, options: &DeleteOptions, grace: Grace, now: Timestamp) -> GracefulDeletion {
    if let Some(deleted_at) = object_meta::deletion_timestamp(object) {
        let running_s = object_meta::grace_period_s(object).unwrap_or(0);
        if running_s == 0 {
            return GracefulDeletion::Immediate;
        }
        // A running grace period can only be shortened.
        return match options.grace_period_s {
            Some(shorter_s) if shorter_s < running_s => {
                let at = deleted_at - SignedDuration::from_secs(running_s) + SignedDuration::from_secs(shorter_s);
                mark(object, at, shorter_s);
                GracefulDeletion::Started(shorter_s)
            }
            _ => GracefulDeletion::Pending,
        };
    }
    match grace {
        Grace::None | Grace::UntilEmpty => GracefulDeletion::Immediate,
        Grace::Period { grace_period_s } => {
            mark(object, now + SignedDuration::from_secs(grace_period_s), grace_period_s);
            object_meta::bump_generation(object);
            GracefulDeletion::Started(grace_period_s)
        }
    }
}

fn mark(object: &mut Value, at: Timestamp, grace_period_s: i64) {
    let meta = object_meta::meta_mut(object);
    meta.insert("deletionTimestamp".into(), json!(object_meta::time(at)));
    meta.insert("deletionGracePeriodSeconds".into(), json!(grace_period_s));
}

/// Returns the finalizers after the request's propagation policy has added or removed `orphan` and `foregroundDeletion`.
fn finalizers_for(before: &[String], options: &DeleteOptions) -> Vec<String> {
    let has = |name: &str| before.iter().any(|f| f == name);
    let (orphan, foreground) = match (options.propagation, options.orphan_dependents) {
        (Some(policy), _) => (policy == Propagation::Orphan, policy == Propagation::Foreground),
        (None, Some(orphan)) => (orphan, false),
        (None, None) => (has(ORPHAN), has(FOREGROUND)),
    };
    let unchanged = orphan == has(ORPHAN) && foreground == has(FOREGROUND);
    if unchanged {
        return before.to_vec();
    }
    let mut after: Vec<String> = before.iter().filter(|f| *f != ORPHAN && *f != FOREGROUND).cloned().collect();
    if orphan {
        after.push(ORPHAN.into());
    }
    if foreground {
        after.push(FOREGROUND.into());
    }
    after
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:01:00Z".parse().unwrap()
    }

    fn marked(step: DeletionStep) -> (Value, bool) {
        match step {
            DeletionStep::Mark { object, then_remove } => (object["metadata"].clone(), then_remove),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_grace_and_finalizers_it_goes_at_once() {
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(next_step(object, &DeleteOptions::default(), Grace::None, now()), DeletionStep::Remove);
    }

    #[test]
    fn finalizers_hold_it_and_mark_it() {
        let object = json!({"metadata": {"finalizers": ["a/b"], "generation": 2}});
        let (meta, then_remove) = marked(next_step(object, &DeleteOptions::default(), Grace::None, now()));
        assert_eq!(
            meta,
            json!({"finalizers": ["a/b"], "generation": 3, "deletionTimestamp": "2026-01-01T00:01:00Z", "deletionGracePeriodSeconds": 0})
        );
        assert!(!then_remove);
    }

    #[test]
    fn grace_begins_runs_and_is_only_shortened() {
        let pod = json!({"metadata": {"name": "p", "generation": 1}});
        let period = |grace_period_s| Grace::Period { grace_period_s };
        let (meta, then_remove) = marked(next_step(pod.clone(), &DeleteOptions::default(), period(30), now()));
        assert_eq!(
            (&meta["deletionTimestamp"], &meta["deletionGracePeriodSeconds"], &meta["generation"], then_remove),
            (&json!("2026-01-01T00:01:30Z"), &json!(30), &json!(2), false)
        );
        let running = json!({"metadata": meta});
        let ask = |grace_period_s| DeleteOptions { grace_period_s, ..DeleteOptions::default() };
        assert_eq!(next_step(running.clone(), &ask(Some(40)), period(40), now()), DeletionStep::Wait);
        assert_eq!(next_step(running.clone(), &ask(None), period(30), now()), DeletionStep::Wait);
        let (meta, then_remove) = marked(next_step(running, &ask(Some(5)), period(5), now()));
        assert_eq!((&meta["deletionTimestamp"], then_remove), (&json!("2026-01-01T00:01:05Z"), false));
        let (_, then_remove) = marked(next_step(pod, &ask(Some(0)), period(0), now()));
        assert!(then_remove);
    }

    #[test]
    fn propagation_is_told_by_finalizers() {
        let ask = |propagation| DeleteOptions { propagation, ..DeleteOptions::default() };
        let before = ["a/b".to_owned(), ORPHAN.to_owned()];
        assert_eq!(finalizers_for(&before, &ask(None)), before);
        assert_eq!(finalizers_for(&before, &ask(Some(Propagation::Foreground))), ["a/b", FOREGROUND]);
        assert_eq!(finalizers_for(&before, &ask(Some(Propagation::Background))), ["a/b"]);
    }
}
