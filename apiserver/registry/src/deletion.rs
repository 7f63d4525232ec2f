//! Delete: grace, finalizers, propagation, and what is left when they are over.
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

const WRITE_ATTEMPTS: usize = 64;

/// What a deletion did.
#[derive(Debug)]
pub enum Deleted {
    /// The object is gone; this is its last state.
    Gone(Arc<Object>),
    /// It waits for its grace or for finalizers.
    Pending(Arc<Object>),
}

/// What has to be done to delete an object, decided on its current state.
#[derive(Debug, PartialEq)]
enum Step {
    Remove,
    /// Write this first; remove at once if it says so.
    Mark {
        object: Value,
        then_remove: bool,
    },
    /// The deletion has begun, and this request does not hasten it.
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
                    return self.shown_one(&row, mutation.target, object).await.map(Deleted::Gone);
                }
                Some(Deleted::Pending(object)) => {
                    return self.shown_one(&row, mutation.target, object).await.map(Deleted::Pending);
                }
            }
        }
        Err(mutation.modified())
    }

    /// Whether something lies under an object's key and is none.
    pub async fn is_unreadable(&self, mutation: &Mutation<'_>) -> Result<bool> {
        let row = self.row(&mutation.target.row)?;
        match row.cacher.get_latest(mutation.namespace, mutation.name).await {
            Err(cacher::Error::Undecodable { .. }) => Ok(true),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(false),
        }
    }

    /// Removes what is unreadable. Finalizers cannot hold it: nobody knows whether it has any.
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

    /// `None`: another writer was faster.
    async fn attempt_delete(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        options: &DeleteOptions,
        current: &Arc<Object>,
    ) -> Result<Option<Deleted>> {
        let mut object = current.to_value();
        let expected = check_preconditions(mutation.served(), mutation.name, options, &object);
        mutation.expected(&expected);
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
                step_until_empty(object, options, is_held, self.env.wall())
            }
            grace => step(object, options, grace, self.env.wall()),
        };
        let key = row.key(mutation.namespace, mutation.name);
        match step {
            Step::Wait => {
                mutation.not_written(&key, "its deletion has begun already");
                Ok(Some(Deleted::Pending(current.clone())))
            }
            Step::Remove => self.remove(row, mutation, &key, current).await,
            Step::Mark { object, then_remove } => {
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

    /// Removes what this request has marked. Other writers may change it between the mark and the removal: then the
    /// removal is tried again on what they made of it, because the mark is on it still.
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
                // Whoever else removed it did our work, and an object that has its name by now is another one.
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
            mutation.not_written(key, if mutation.dry_run { "a dry run" } else { "it is as it was" });
            return Ok(Some(Arc::new(object)));
        }
        mutation.steps.inspect(|steps| steps.begin());
        match self.put(row, key, current.revision, &object).await? {
            Outcome::Written { revision, .. } => {
                mutation.stored(key, StepOutcome::Stored, revision);
                Ok(Some(Arc::new(object.at_revision(revision))))
            }
            Outcome::Refused(_) => {
                mutation.stored(key, StepOutcome::Outrun, 0);
                Ok(None)
            }
        }
    }

    async fn remove(
        &self,
        row: &Row,
        mutation: &Mutation<'_>,
        key: &str,
        current: &Arc<Object>,
    ) -> Result<Option<Deleted>> {
        if mutation.dry_run {
            mutation.not_written(key, "a dry run");
            return Ok(Some(Deleted::Gone(current.clone())));
        }
        mutation.steps.inspect(|steps| steps.begin());
        match self.storage.delete(key, current.revision).await? {
            Outcome::Written { revision, .. } => {
                mutation.stored(key, StepOutcome::Removed, revision);
                row.wait_until_followed(revision).await;
                if let Err(error) = row.strategy.after_delete(current, self).await {
                    // The object is gone all the same; what it held is found by the repair loop.
                    tracing::warn!(key, error = error.message, "what a deleted object held is not let go yet");
                }
                Ok(Some(Deleted::Gone(Arc::new(current.copy_at(revision)))))
            }
            Outcome::Refused(_) => {
                mutation.stored(key, StepOutcome::Outrun, 0);
                Ok(None)
            }
        }
    }

    /// An update took the last finalizer of an object that waits to be deleted.
    pub(super) async fn delete_finished(
        &self,
        row: &Row,
        mutation: &Mutation<'_>,
        key: &str,
        current: &Arc<Object>,
        stored: Value,
    ) -> Result<Option<Written>> {
        let last = Arc::new(row.object(stored, current.revision));
        if self.remove(row, mutation, key, current).await?.is_none() {
            let there = self.current(row, mutation.namespace, mutation.name).await?;
            if there.is_some_and(|there| there.index.uid == current.index.uid) {
                return Ok(None);
            }
            // Another writer took the last finalizer at the same time: the object is gone, as this one wanted.
        }
        Ok(Some(Written { object: last, created: false }))
    }
}

/// Unlike other conflicts, these name the kind where the resource stands, as in Kubernetes.
pub fn check_preconditions(served: &Served, name: &str, options: &DeleteOptions, object: &Value) -> Result<()> {
    let conflict = |why: String| Err(Error::Conflict(Status::conflict(&served.group, &served.kind, name, why)));
    let (uid, version) = (object_meta::text(object, "uid"), object_meta::text(object, "resourceVersion"));
    if let Some(wanted) = options.uid.as_deref().filter(|wanted| *wanted != uid) {
        return conflict(format!(
            "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have \
             been deleted and then recreated"
        ));
    }
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != version) {
        return conflict(format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({version}). The object might have been modified"
        ));
    }
    Ok(())
}

/// What to do, from the object, the request and the kind's own grace alone.
fn step(mut object: Value, options: &DeleteOptions, grace: Grace, now: Timestamp) -> Step {
    let graceful = match begin_grace(&mut object, options, grace, now) {
        Begun::Pending => return Step::Wait,
        Begun::Graceful(seconds) => Some(seconds),
        Begun::AtOnce => None,
    };
    let before = object_meta::finalizers(&object);
    let finalizers = propagated(&before, options);
    object_meta::set_finalizers(&mut object, &finalizers);
    match graceful {
        Some(seconds) => Step::Mark { object, then_remove: finalizers.is_empty() && seconds == 0 },
        None if finalizers.is_empty() => Step::Remove,
        None => {
            object_meta::mark_deleting(&mut object, now);
            Step::Mark { object, then_remove: false }
        }
    }
}

/// The first deletion marks the object, so that its controller removes what is in it. A later one removes the object,
/// unless it is still held.
fn step_until_empty(mut object: Value, options: &DeleteOptions, is_held: bool, now: Timestamp) -> Step {
    if object_meta::deletion_timestamp(&object).is_none() {
        let finalizers = propagated(&object_meta::finalizers(&object), options);
        object_meta::set_finalizers(&mut object, &finalizers);
        object_meta::meta_mut(&mut object).insert("deletionTimestamp".into(), json!(object_meta::time(now)));
        return Step::Mark { object, then_remove: false };
    }
    if is_held { Step::Wait } else { step(object, options, Grace::None, now) }
}

enum Begun {
    /// Marked with so many seconds of grace.
    Graceful(i64),
    /// Its grace runs already.
    Pending,
    AtOnce,
}

fn begin_grace(object: &mut Value, options: &DeleteOptions, grace: Grace, now: Timestamp) -> Begun {
    if let Some(deleted_at) = object_meta::deletion_timestamp(object) {
        let running_s = object_meta::grace_period_s(object).unwrap_or(0);
        if running_s == 0 {
            return Begun::AtOnce;
        }
        // A grace that runs can only be shortened.
        return match options.grace_period_s {
            Some(wanted_s) if wanted_s < running_s => {
                let at = deleted_at - SignedDuration::from_secs(running_s) + SignedDuration::from_secs(wanted_s);
                mark(object, at, wanted_s);
                Begun::Graceful(wanted_s)
            }
            _ => Begun::Pending,
        };
    }
    match grace {
        Grace::None | Grace::UntilEmpty => Begun::AtOnce,
        Grace::Period { grace_period_s } => {
            mark(object, now + SignedDuration::from_secs(grace_period_s), grace_period_s);
            object_meta::bump_generation(object);
            Begun::Graceful(grace_period_s)
        }
    }
}

fn mark(object: &mut Value, at: Timestamp, grace_period_s: i64) {
    let meta = object_meta::meta_mut(object);
    meta.insert("deletionTimestamp".into(), json!(object_meta::time(at)));
    meta.insert("deletionGracePeriodSeconds".into(), json!(grace_period_s));
}

/// The finalizers after the request has said what shall become of dependents.
fn propagated(before: &[String], options: &DeleteOptions) -> Vec<String> {
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

    fn marked(step: Step) -> (Value, bool) {
        match step {
            Step::Mark { object, then_remove } => (object["metadata"].clone(), then_remove),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn without_grace_and_finalizers_it_goes_at_once() {
        let object = json!({"metadata": {"name": "a"}});
        assert_eq!(step(object, &DeleteOptions::default(), Grace::None, now()), Step::Remove);
    }

    #[test]
    fn finalizers_hold_it_and_mark_it() {
        let object = json!({"metadata": {"finalizers": ["a/b"], "generation": 2}});
        let (meta, then_remove) = marked(step(object, &DeleteOptions::default(), Grace::None, now()));
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
        let (meta, then_remove) = marked(step(pod.clone(), &DeleteOptions::default(), period(30), now()));
        assert_eq!(
            (&meta["deletionTimestamp"], &meta["deletionGracePeriodSeconds"], &meta["generation"], then_remove),
            (&json!("2026-01-01T00:01:30Z"), &json!(30), &json!(2), false)
        );
        let running = json!({"metadata": meta});
        let ask = |grace_period_s| DeleteOptions { grace_period_s, ..DeleteOptions::default() };
        assert_eq!(step(running.clone(), &ask(Some(40)), period(40), now()), Step::Wait);
        assert_eq!(step(running.clone(), &ask(None), period(30), now()), Step::Wait);
        let (meta, then_remove) = marked(step(running, &ask(Some(5)), period(5), now()));
        assert_eq!((&meta["deletionTimestamp"], then_remove), (&json!("2026-01-01T00:01:05Z"), false));
        let (_, then_remove) = marked(step(pod, &ask(Some(0)), period(0), now()));
        assert!(then_remove);
    }

    #[test]
    fn propagation_is_told_by_finalizers() {
        let ask = |propagation| DeleteOptions { propagation, ..DeleteOptions::default() };
        let before = ["a/b".to_owned(), ORPHAN.to_owned()];
        assert_eq!(propagated(&before, &ask(None)), before);
        assert_eq!(propagated(&before, &ask(Some(Propagation::Foreground))), ["a/b", FOREGROUND]);
        assert_eq!(propagated(&before, &ask(Some(Propagation::Background))), ["a/b"]);
    }
}
