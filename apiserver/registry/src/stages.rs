//! The stages of a create and an update, one function each. `store.rs` lists them in order.

use super::attempt::{Attempt, Live, Progress};
use super::mutation::{Mutation, Written};
use super::stored::has_old_version;
use super::{Error, Phase, Registry, Result, reset_fields};
use admission::Operation;
use patch::apply;
use patch::apply::conversions::Conversions;
use patch::defaults::set_defaults;
use proto::Status;
use proto::meta::status::FieldError;
use request::query::parse_unsigned;
use request::trace::StepOutcome;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;
use storage::Outcome;
use strategy::object_meta;

const NEXT: Progress = Ok(ControlFlow::Continue(()));

fn done(written: Written) -> Progress {
    Ok(ControlFlow::Break(Some(written)))
}

/// Returns the object that an update changes. Only stages of updates call it.
fn live<'l, 'a>(live: &'l Option<Live<'a>>) -> Result<&'l Live<'a>> {
    Ok(live.as_ref().ok_or_else(|| Status::internal("a creation passed a stage of updates"))?)
}

/// Makes the new object from the stored one: by a body, a patch, or server-side apply.
pub(super) async fn apply_change(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Live { change, old_served, .. } = live(&attempt.live)?;
    let change = |conversions: &Conversions| change.change(Some(old_served), conversions);
    let changed = attempt.registry.with_conversions(attempt.row, change).await??;
    attempt.object = changed.object;
    attempt.is_managed = changed.managed;
    set_defaults(attempt.mutation.served(), &mut attempt.object);
    NEXT
}

/// Records in the managed fields which fields this write sets or changes.
pub(super) async fn record_managed_fields(attempt: &mut Attempt<'_, '_>) -> Progress {
    if attempt.is_managed {
        return NEXT;
    }
    let Attempt { registry, row, mutation, object, .. } = attempt;
    let old = attempt.live.as_ref().map(|live| &*live.old_served);
    let reset = reset_fields(mutation);
    let record = |mut object: Value, conversions: &Conversions| {
        let fields = registry.field_manager(mutation, &reset).with_conversions(conversions);
        fields.update(old, &mut object, mutation.manager);
        object
    };
    let given = object.take();
    *object = match row.converter {
        None => record(given, &Conversions::default()),
        Some(_) => registry.with_conversions(row, |conversions| record(given.clone(), conversions)).await?,
    };
    NEXT
}

/// Runs mutating admission, then defaults the fields that plugins, webhooks and policies added.
pub(super) async fn admit_mutating(attempt: &mut Attempt<'_, '_>) -> Progress {
    let operation = attempt.operation();
    let Attempt { registry, mutation, object, live, .. } = attempt;
    let old = live.as_ref().map(|live| live.old_served.clone());
    registry.admit(operation, Phase::Mutating, mutation, Some(object), old.as_deref()).await?;
    set_defaults(mutation.served(), object);
    object_meta::keep_namespace(object, mutation.namespace)?;
    if let Some(old) = old {
        apply::forget_new_times_if_unchanged(&old, object);
    }
    NEXT
}

/// Compares the uid and the resourceVersion that the writer expects with those of the stored object.
pub(super) async fn check_preconditions(attempt: &mut Attempt<'_, '_>) -> Progress {
    let expected = preconditions(attempt);
    attempt.mutation.trace_preconditions(&expected);
    expected?;
    NEXT
}

fn preconditions(attempt: &Attempt<'_, '_>) -> Result<()> {
    let Attempt { row, mutation, object, .. } = attempt;
    let Live { change, key, old, .. } = live(&attempt.live)?;
    let uid = object_meta::text(old, "uid");
    if let Some(required) = change.required_uid().filter(|required| *required != uid) {
        return Err(mutation.conflict(format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
             Precondition failed: UID in precondition: {required}, UID in object meta: {uid}"
        )));
    }
    let version = object_meta::text(object, "resourceVersion");
    let number = match version {
        "" => 0,
        text => parse_unsigned(text).map_err(|why| {
            Status::failure(500, "", format!("metadata.resourceVersion: Invalid value: {text:?}: {why}"))
        })?,
    };
    if number == 0 {
        if row.strategy.allow_unconditional_update() {
            return Ok(());
        }
        let mut error = FieldError::required("metadata.resourceVersion", "");
        error.reason = "FieldValueInvalid";
        let served = mutation.served();
        let zero = if served.schema.is_builtin() { "0x0" } else { "0" };
        error.message = format!("Invalid value: {zero}: must be specified for an update");
        return Err(Error::Invalid(Status::invalid(&served.group, &served.resource, mutation.name, &[error])));
    }
    if version != object_meta::text(old, "resourceVersion") {
        return Err(mutation.modified());
    }
    Ok(())
}

/// Authorizes the content of a role or binding: a user cannot grant permissions that they do not hold.
pub(super) async fn authorize_content(attempt: &mut Attempt<'_, '_>) -> Progress {
    let old = attempt.live.as_ref().map(|live| &*live.old_served);
    attempt.registry.authorize_content(attempt.mutation, &attempt.object, old).await?;
    NEXT
}

/// Fills in what the server sets on a new object: uid, creation time, generated name, and what its strategy fills in and
/// reserves.
pub(super) async fn prepare_new(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Attempt { registry, row, mutation, .. } = attempt;
    if !attempt.is_update_that_creates {
        attempt.given_version = object_meta::text(&attempt.object, "resourceVersion").to_owned();
    }
    let mut stored = mutation.target.row.to_storage(mutation.target.served, attempt.object.take());
    let before = mutation.before(&stored);
    let suffix = || registry.random.name_suffix(object_meta::GENERATED_SUFFIX);
    object_meta::begin_create(&mut stored, registry.random.uid(), registry.env.wall(), suffix);
    attempt.name = object_meta::text(&stored, "name").to_owned();
    let mut context = registry.write_context(mutation, &attempt.name);
    row.strategy.prepare_for_create(&context, &mut stored);
    attempt.reservation = row.strategy.begin_create(&context, &mut stored, *registry).await?;
    let mut warnings = std::mem::take(&mut context.warnings);
    mutation.warnings.append(&mut warnings);
    mutation.trace_preparation(before, &stored);
    attempt.stored = stored;
    NEXT
}

/// Restores the fields that a writer may not change, and lets the strategy prepare the rest.
pub(super) async fn prepare_changed(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Attempt { registry, row, mutation, .. } = attempt;
    let old = live(&attempt.live)?.old.clone();
    let mut stored = mutation.target.row.to_storage(mutation.target.served, attempt.object.take());
    let before = mutation.before(&stored);
    object_meta::begin_update(&mut stored, &old);
    let mut context = registry.write_context(mutation, &attempt.name);
    row.strategy.prepare_for_update(&context, &mut stored, &old);
    attempt.reservation = row.strategy.begin_update(&context, &mut stored, &old, *registry).await?;
    let mut warnings = std::mem::take(&mut context.warnings);
    mutation.warnings.append(&mut warnings);
    mutation.trace_preparation(before, &stored);
    attempt.stored = stored;
    NEXT
}

/// Validates the object, with every field error at once, and collects the strategy's warnings.
pub(super) async fn validate(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Attempt { registry, row, mutation, stored, name, live, .. } = attempt;
    let context = registry.write_context(mutation, name);
    let errors = match live {
        None => row.strategy.validate(&context, stored),
        Some(live) => row.strategy.validate_update(&context, stored, &live.old),
    };
    mutation.trace_validation(&errors);
    if !errors.is_empty() {
        return Err(Error::Invalid(context.invalid(name, &errors)));
    }
    let warnings = match live {
        None => row.strategy.warnings_on_create(&context, stored),
        Some(live) => row.strategy.warnings_on_update(&context, stored, &live.old),
    };
    mutation.warnings.extend(warnings);
    NEXT
}

/// Authorizes the verb `create` when an update creates its object.
pub(super) async fn authorize_creation(attempt: &mut Attempt<'_, '_>) -> Progress {
    if attempt.is_update_that_creates {
        attempt.registry.authorize_creation(attempt.mutation, &attempt.name).await?;
    }
    NEXT
}

/// Brings the object into its stored form and runs validating admission on it. A conversion webhook is called last, after
/// admission.
pub(super) async fn admit_validating(attempt: &mut Attempt<'_, '_>) -> Progress {
    let operation = attempt.operation();
    let Attempt { registry, row, mutation, stored, live, .. } = attempt;
    let old = live.as_ref().map(|live| live.old.clone());
    if row.converter.is_some() {
        registry.validate_admission(operation, mutation, stored, old.as_deref()).await?;
        *stored = registry.as_served(row, row.resource.storage_version(), stored.take()).await?;
    }
    row.strategy.canonicalize(stored);
    // Stores the defaults that a reader would see: those that follow from what the strategy decided, and those that only
    // the storage version has.
    set_defaults(mutation.target.row.storage_version(), stored);
    if row.converter.is_none() {
        registry.validate_admission(operation, mutation, stored, old.as_deref()).await?;
    }
    NEXT
}

/// Stores a new object, unless its name is taken.
pub(super) async fn store_new(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Attempt { registry, row, mutation, stored, name, given_version, .. } = attempt;
    let stored = stored.take();
    let key = row.key(mutation.namespace, name);
    let generates = !object_meta::text(&stored, "generateName").is_empty();
    let taken = || if generates { mutation.generated_name_taken(name) } else { mutation.already_exists(name) };
    if mutation.dry_run {
        if registry.current(row, mutation.namespace, name).await?.is_some() {
            return Err(Error::AlreadyExists(taken()));
        }
        mutation.trace_not_written(&key, "a dry run");
        return done(Written { object: Arc::new(row.dry_run_object(stored, given_version)), created: true });
    }
    // In Kubernetes the store refuses such an object, so that a dry run succeeds.
    if parse_unsigned(given_version).unwrap_or(0) != 0 {
        return Err(Status::failure(500, "", "resourceVersion should not be set on objects to be created").into());
    }
    let object = row.object(stored, 0);
    match registry.put(row, &key, 0, &object).await? {
        Outcome::Written { revision, .. } => {
            mutation.trace_storage(&key, StepOutcome::Stored, revision);
            row.wait_until_followed(revision).await;
            done(Written { object: Arc::new(object.at_revision(revision)), created: true })
        }
        Outcome::Refused(_) => {
            let mut status = taken();
            mutation.trace_storage(&key, StepOutcome::Refused, 0);
            if registry.current(row, mutation.namespace, name).await?.is_some_and(|there| there.index.deleting) {
                status.message = format!("object is being deleted: {}", status.message);
            }
            Err(Error::AlreadyExists(status))
        }
    }
}

/// Removes an object that is being deleted when the update has removed its last finalizer.
pub(super) async fn remove_released(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Attempt { registry, row, mutation, stored, .. } = attempt;
    if !object_meta::is_to_be_deleted(stored) || row.strategy.is_held(stored) {
        return NEXT;
    }
    let Live { key, current, .. } = live(&attempt.live)?;
    Ok(ControlFlow::Break(registry.remove_released(row, mutation, key, current, stored.take()).await?))
}

/// Stores a changed object, unless nothing has changed or another writer changed it first.
pub(super) async fn store_changed(attempt: &mut Attempt<'_, '_>) -> Progress {
    let Attempt { registry, row, mutation, stored, .. } = attempt;
    let Live { key, current, .. } = live(&attempt.live)?;
    let object = row.object(stored.take(), current.revision);
    if object.bytes() == current.bytes() && (mutation.dry_run || !registry.is_stale(row, key).await?) {
        mutation.trace_not_written(key, "it is as it was");
        return done(Written { object: Arc::clone(current), created: false });
    }
    if mutation.dry_run {
        mutation.trace_not_written(key, "a dry run");
        return done(Written { object: Arc::new(object), created: false });
    }
    match registry.put(row, key, current.revision, &object).await? {
        Outcome::Written { revision, .. } => {
            mutation.trace_storage(key, StepOutcome::Stored, revision);
            row.wait_until_followed(revision).await;
            done(Written { object: Arc::new(object.at_revision(revision)), created: false })
        }
        Outcome::Refused(_) => {
            mutation.trace_storage(key, StepOutcome::Outrun, 0);
            Ok(ControlFlow::Break(None))
        }
    }
}

impl Registry {
    /// Tells whether an unchanged object must be written all the same, because it is encrypted with an old key, or stored in an
    /// old version.
    async fn is_stale(&self, row: &super::row::Row, key: &str) -> Result<bool> {
        let has_versions = row.resource.served.len() > 1;
        if !row.transformer.is_configured() && !has_versions {
            return Ok(false);
        }
        let entry = self.storage.get(key).await?.entry;
        Ok(entry.is_some_and(|entry| {
            let is_old = || has_old_version(&row.resource, &row.transformer, &entry);
            row.transformer.is_stale(&entry.value) || has_versions && is_old()
        }))
    }

    /// Runs validating admission on the object as it will be stored, converted to the request's version.
    async fn validate_admission(
        &self,
        operation: Operation,
        mutation: &mut Mutation<'_>,
        stored: &mut Value,
        old: Option<&Value>,
    ) -> Result<()> {
        if mutation.target.shows_as_stored() {
            return self.admit(operation, Phase::Validating, mutation, Some(stored), old).await;
        }
        let mut object = mutation.served().from_storage(stored.clone());
        let old = old.map(|old| mutation.served().from_storage(old.clone()));
        self.admit(operation, Phase::Validating, mutation, Some(&mut object), old.as_ref()).await
    }
}
