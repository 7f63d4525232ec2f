//! Create and update: the loop that every mutation goes through, in the order of the write path.
//!
//! Body or patch, defaults, managed fields, mutating admission, defaults again, strategy, validation, validating
//! admission, unchanged?, store or dry-run; and from the top where another writer was faster.
//! Corresponds to k8s.io/apiserver/pkg/registry/generic/registry/store.go and the handlers' transformers. As there,
//! managed fields are noted before mutating admission: nobody owns what plugins fill in.

use super::mutation::{Change, Mutation, Written};
use super::row::Row;
use super::{Error, Phase, Registry, Result, reset_fields};
use admission::Operation;
use patch::apply;
use patch::apply::conversions::Conversions;
use patch::defaults::set_defaults;
use proto::meta::status::FieldError;
use request::query::parse_unsigned;
use request::trace::Outcome as Told;
use storage::Outcome;
use strategy::Stored;
use strategy::object_meta;

use proto::{Object, Status};
use serde_json::Value;
use std::sync::Arc;

/// Names that are tried before a generated one is given up.
const NAME_ATTEMPTS: usize = 8;
/// Rounds of one write before it is given up: each lost one means that another writer won.
const WRITE_ATTEMPTS: usize = 64;

/// What makes a new object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Creation,
    /// A PUT or an apply that found nothing; `managed` where its managed fields are as they shall be.
    Update {
        managed: bool,
    },
}

impl Registry {
    /// Creates the object of a body that has been decoded and defaulted, in the request's version.
    pub async fn create(&self, mutation: &mut Mutation<'_>, mut body: Value) -> Result<Written> {
        let row = self.row(&mutation.target.row)?;
        refuse_while_terminating(&row)?;
        let generates = object_meta::text(&body, "name").is_empty();
        let mut tries = 0;
        loop {
            tries += 1;
            mutation.attempt(tries);
            mutation.warnings.clear();
            // Only a generated name is tried more than once.
            let object = if generates { body.clone() } else { body.take() };
            match self.attempt_create(&row, mutation, object, Origin::Creation).await {
                Err(taken) if taken.is_already_exists() && generates && tries < NAME_ATTEMPTS => {}
                outcome => return self.answered(&row, mutation, outcome?).await,
            }
        }
    }

    /// What was written, as the request's version shows it.
    async fn answered(&self, row: &Row, mutation: &Mutation<'_>, written: Written) -> Result<Written> {
        let object = self.shown_one(row, mutation.target, written.object).await?;
        Ok(Written { object, ..written })
    }

    /// The object with the record of what this write changes of the live one.
    async fn recorded(&self, row: &Row, mutation: &Mutation<'_>, live: Option<&Value>, object: Value) -> Result<Value> {
        let reset = reset_fields(mutation);
        let record = |mut object: Value, conversions: &Conversions| {
            let fields = self.field_manager(mutation, &reset).with_conversions(conversions);
            fields.update(live, &mut object, mutation.manager);
            object
        };
        match row.converter {
            None => Ok(record(object, &Conversions::default())),
            Some(_) => self.with_conversions(row, |conversions| record(object.clone(), conversions)).await,
        }
    }

    async fn attempt_create(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        mut object: Value,
        origin: Origin,
    ) -> Result<Written> {
        if origin != (Origin::Update { managed: true }) {
            object = self.recorded(row, mutation, None, object).await?;
        }
        self.admit(Operation::Create, Phase::Mutating, mutation, Some(&mut object), None).await?;
        set_defaults(mutation.served(), &mut object);
        object_meta::keep_namespace(&mut object, mutation.namespace)?;
        self.authorize_content(mutation, &object, None).await?;
        let given_version = match origin {
            Origin::Creation => object_meta::text(&object, "resourceVersion").to_owned(),
            Origin::Update { .. } => String::new(),
        };

        let mut stored = mutation.target.row.to_storage(mutation.target.served, object);
        let before = mutation.before(&stored);
        let now = self.env.wall();
        let suffix = || self.random.name_suffix(object_meta::GENERATED_SUFFIX);
        object_meta::begin_create(&mut stored, self.random.uid(), now, suffix);
        let name = object_meta::text(&stored, "name").to_owned();
        let reservation = {
            let mut context = self.write_context(mutation, &name);
            row.strategy.prepare_for_create(&context, &mut stored);
            let reservation = row.strategy.begin_create(&context, &mut stored, self).await?;
            mutation.warnings.append(&mut context.warnings);
            reservation
        };
        mutation.prepared(before, &stored);
        let outcome = self.finish_create(row, mutation, &name, stored, &given_version, origin).await;
        let stored = if mutation.dry_run { Stored::No } else { stored_as(&outcome) };
        reservation.finish(stored, self).await;
        outcome
    }

    async fn finish_create(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        name: &str,
        stored: Value,
        given_version: &str,
        origin: Origin,
    ) -> Result<Written> {
        {
            let context = self.write_context(mutation, name);
            let errors = row.strategy.validate(&context, &stored);
            mutation.validated(&errors);
            if !errors.is_empty() {
                return Err(Error::Invalid(context.invalid(name, &errors)));
            }
            let warnings = row.strategy.warnings_on_create(&context, &stored);
            mutation.warnings.extend(warnings);
        }
        if origin != Origin::Creation {
            self.authorize_creation(mutation, name).await?;
        }
        let stored = self.settled(row, Operation::Create, mutation, stored, None).await?;
        let key = row.key(mutation.namespace, name);
        let generates = !object_meta::text(&stored, "generateName").is_empty();
        let taken = || if generates { mutation.no_name_left(name) } else { mutation.already_exists(name) };
        if mutation.dry_run {
            if self.current(row, mutation.namespace, name).await?.is_some() {
                return Err(Error::AlreadyExists(taken()));
            }
            mutation.not_written(&key, "a dry run");
            return Ok(Written { object: Arc::new(row.tried(stored, given_version)), created: true });
        }
        // Only the store itself minds, so nobody hears of it who merely tries.
        if parse_unsigned(given_version).unwrap_or(0) != 0 {
            return Err(Status::failure(500, "", "resourceVersion should not be set on objects to be created").into());
        }
        let object = row.object(stored, 0);
        mutation.steps.inspect(|steps| steps.begin());
        match self.put(row, &key, 0, &object).await? {
            Outcome::Written { revision, .. } => {
                mutation.stored(&key, Told::Stored, revision);
                row.wait_until_followed(revision).await;
                Ok(Written { object: Arc::new(object.at_revision(revision)), created: true })
            }
            Outcome::Refused(_) => {
                let mut status = taken();
                mutation.stored(&key, Told::Refused, 0);
                if self.current(row, mutation.namespace, name).await?.is_some_and(|there| there.index.deleting) {
                    status.message = format!("object is being deleted: {}", status.message);
                }
                Err(Error::AlreadyExists(status))
            }
        }
    }

    /// Changes the object of the mutation's name, as often as it takes to win against other writers.
    pub async fn update(&self, mutation: &mut Mutation<'_>, change: &dyn Change) -> Result<Written> {
        let row = self.row(&mutation.target.row)?;
        let key = row.key(mutation.namespace, mutation.name);
        for attempt in 1..=WRITE_ATTEMPTS {
            mutation.attempt(attempt);
            mutation.warnings.clear();
            let Some(current) = self.current(&row, mutation.namespace, mutation.name).await? else {
                // Kinds that a PUT may create can be created through any of their endpoints.
                let may_create =
                    (mutation.subresource.is_empty() && change.creates()) || row.strategy.allow_create_on_update();
                if !may_create {
                    return Err(mutation.not_found());
                }
                let mut changed = change.change(None, &Conversions::default())?;
                set_defaults(mutation.served(), &mut changed.object);
                let origin = Origin::Update { managed: changed.managed };
                match self.attempt_create(&row, mutation, changed.object, origin).await {
                    // Somebody made it meanwhile: now it is an update.
                    Err(taken) if taken.is_already_exists() => continue,
                    outcome => return self.answered(&row, mutation, outcome?).await,
                }
            };
            if let Some(written) = self.attempt_update(&row, mutation, change, &key, &current).await? {
                return self.answered(&row, mutation, written).await;
            }
        }
        Err(mutation.modified())
    }

    /// `None`: another writer was faster.
    async fn attempt_update(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        change: &dyn Change,
        key: &str,
        current: &Arc<Object>,
    ) -> Result<Option<Written>> {
        let mut old = Arc::new(current.to_value());
        let old_served = match mutation.target.shows_as_stored() {
            true => old.clone(),
            false => Arc::new(self.as_served(row, mutation.served(), Value::clone(&old)).await?),
        };
        if row.converter.is_some() {
            // Until it is stored, everything is in the request's version.
            old = old_served.clone();
        }
        let (old, old_served) = (&*old, &*old_served);
        let changed = self.with_conversions(row, |conversions| change.change(Some(old_served), conversions)).await??;
        let mut object = changed.object;
        set_defaults(mutation.served(), &mut object);
        if !changed.managed {
            object = self.recorded(row, mutation, Some(old_served), object).await?;
        }
        self.admit(Operation::Update, Phase::Mutating, mutation, Some(&mut object), Some(old_served)).await?;
        set_defaults(mutation.served(), &mut object);
        object_meta::keep_namespace(&mut object, mutation.namespace)?;
        apply::forget_new_times_if_unchanged(old_served, &mut object);
        let expected = self.check_preconditions(row, mutation, change, key, &object, old);
        mutation.expected(&expected);
        expected?;
        self.authorize_content(mutation, &object, Some(old_served)).await?;

        let mut stored = mutation.target.row.to_storage(mutation.target.served, object);
        let before = mutation.before(&stored);
        object_meta::begin_update(&mut stored, old);
        let name = mutation.name.to_owned();
        let reservation = {
            let mut context = self.write_context(mutation, &name);
            row.strategy.prepare_for_update(&context, &mut stored, old);
            let reservation = row.strategy.begin_update(&context, &mut stored, old, self).await?;
            mutation.warnings.append(&mut context.warnings);
            reservation
        };
        mutation.prepared(before, &stored);
        let outcome = self.finish_update(row, mutation, key, current, stored, old).await;
        let stored = match &outcome {
            Ok(None) => Stored::No,
            _ if mutation.dry_run => Stored::No,
            outcome => stored_as(outcome),
        };
        reservation.finish(stored, self).await;
        outcome
    }

    async fn finish_update(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        key: &str,
        current: &Arc<Object>,
        stored: Value,
        old: &Value,
    ) -> Result<Option<Written>> {
        {
            let context = self.write_context(mutation, mutation.name);
            let errors = row.strategy.validate_update(&context, &stored, old);
            mutation.validated(&errors);
            if !errors.is_empty() {
                return Err(Error::Invalid(context.invalid(mutation.name, &errors)));
            }
            let warnings = row.strategy.warnings_on_update(&context, &stored, old);
            mutation.warnings.extend(warnings);
        }
        let stored = self.settled(row, Operation::Update, mutation, stored, Some(old)).await?;
        if object_meta::is_to_be_deleted(&stored) && !row.strategy.is_held(&stored) {
            return self.delete_finished(row, mutation, key, current, stored).await;
        }
        let object = row.object(stored, current.revision);
        let written = |object: Object| Some(Written { object: Arc::new(object), created: false });
        if object.bytes() == current.bytes() && (mutation.dry_run || !self.is_stale(row, key).await?) {
            mutation.not_written(key, "it is as it was");
            return Ok(Some(Written { object: current.clone(), created: false }));
        }
        if mutation.dry_run {
            mutation.not_written(key, "a dry run");
            return Ok(written(object));
        }
        mutation.steps.inspect(|steps| steps.begin());
        match self.put(row, key, current.revision, &object).await? {
            Outcome::Written { revision, .. } => {
                mutation.stored(key, Told::Stored, revision);
                row.wait_until_followed(revision).await;
                Ok(written(object.at_revision(revision)))
            }
            Outcome::Refused(_) => {
                mutation.stored(key, Told::Outrun, 0);
                Ok(None)
            }
        }
    }

    /// Whether what did not change is to be written all the same, because today it would be encrypted otherwise.
    async fn is_stale(&self, row: &Row, key: &str) -> Result<bool> {
        if !row.transformer.is_configured() {
            return Ok(false);
        }
        let entry = self.storage.get(key).await?.entry;
        Ok(entry.is_some_and(|entry| row.transformer.is_stale(&entry.value)))
    }

    /// The uid and the resource version that the writer expects.
    fn check_preconditions(
        &self,
        row: &Row,
        mutation: &Mutation<'_>,
        change: &dyn Change,
        key: &str,
        object: &Value,
        old: &Value,
    ) -> Result<()> {
        let uid = object_meta::text(old, "uid");
        if let Some(wanted) = change.required_uid().filter(|wanted| *wanted != uid) {
            return Err(mutation.conflict(format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: \
                 Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
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

    /// What is stored, in the storage version, after validating admission has seen it. A webhook converts last.
    async fn settled(
        &self,
        row: &Row,
        operation: Operation,
        mutation: &mut Mutation<'_>,
        mut stored: Value,
        old: Option<&Value>,
    ) -> Result<Value> {
        if row.converter.is_some() {
            self.validate_admission(operation, mutation, &mut stored, old).await?;
            stored = self.as_served(row, row.resource.storage_version(), stored).await?;
        }
        row.strategy.canonicalize(&mut stored);
        settle(mutation, &mut stored);
        if row.converter.is_none() {
            self.validate_admission(operation, mutation, &mut stored, old).await?;
        }
        Ok(stored)
    }

    /// Validating admission sees the object as it will be stored, in the request's version.
    pub(super) async fn validate_admission(
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

/// What has become of the write that something was reserved for.
fn stored_as<T>(outcome: &Result<T>) -> Stored {
    match outcome {
        Ok(_) => Stored::Yes,
        Err(error) if error.is_store_silent() => Stored::Unknown,
        Err(_) => Stored::No,
    }
}

/// What a reader would find defaulted is stored so: defaults that follow from what the strategy decided, and those of
/// the stored version that the request's version does not have.
fn settle(mutation: &Mutation<'_>, stored: &mut Value) {
    set_defaults(mutation.target.row.storage_version(), stored);
}

/// A definition that is being deleted takes no new objects, or it would never be done.
fn refuse_while_terminating(row: &Row) -> Result<()> {
    if !row.resource.is_terminating {
        return Ok(());
    }
    let storage = row.resource.storage_version();
    let mut status = Status::method_not_allowed(&storage.group, &storage.resource, "create");
    status.message = "create not allowed while custom resource definition is terminating".into();
    Err(status.into())
}
