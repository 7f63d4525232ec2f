//! Create and update: the list of stages of each, the driver that runs them, and the retry loop around it.
//!
//! An update that loses to another writer starts again from the first stage.
//! Corresponds to k8s.io/apiserver/pkg/registry/generic/registry/store.go and the handlers' transformers. As there,
//! managed fields are recorded before mutating admission, so that no manager owns the fields that plugins fill in.

use super::attempt::{Attempt, Live, Progress};
use super::mutation::{Change, Mutation, Written};
use super::row::Row;
use super::{Registry, Result, stages};
use futures::future::BoxFuture;
use patch::apply::conversions::Conversions;
use patch::defaults::set_defaults;
use proto::{Object, Status};
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;
use strategy::object_meta;
use strategy::{Reservation, Stored};

/// Maximum number of generated names that one creation tries.
const NAME_ATTEMPTS: usize = 8;
/// Maximum number of attempts of one update. An attempt fails only when another writer has changed the object first.
const WRITE_ATTEMPTS: usize = 64;

/// Tells whether a change has already recorded the managed fields, as server-side apply does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Managed {
    Already,
    NotYet,
}

/// One stage of a create or an update.
type Stage = for<'s> fn(&'s mut Attempt<'_, '_>) -> BoxFuture<'s, Progress>;

/// The stages of a create, in order.
const CREATE: &[Stage] = &[
    |attempt| Box::pin(stages::record_managed_fields(attempt)),
    |attempt| Box::pin(stages::admit_mutating(attempt)),
    |attempt| Box::pin(stages::authorize_content(attempt)),
    |attempt| Box::pin(stages::prepare_new(attempt)),
    |attempt| Box::pin(stages::validate(attempt)),
    |attempt| Box::pin(stages::authorize_creation(attempt)),
    |attempt| Box::pin(stages::admit_validating(attempt)),
    |attempt| Box::pin(stages::store_new(attempt)),
];

/// The stages of an update, in order.
const UPDATE: &[Stage] = &[
    |attempt| Box::pin(stages::apply_change(attempt)),
    |attempt| Box::pin(stages::record_managed_fields(attempt)),
    |attempt| Box::pin(stages::admit_mutating(attempt)),
    |attempt| Box::pin(stages::check_preconditions(attempt)),
    |attempt| Box::pin(stages::authorize_content(attempt)),
    |attempt| Box::pin(stages::prepare_changed(attempt)),
    |attempt| Box::pin(stages::validate(attempt)),
    |attempt| Box::pin(stages::admit_validating(attempt)),
    |attempt| Box::pin(stages::remove_released(attempt)),
    |attempt| Box::pin(stages::store_changed(attempt)),
];

/// Runs the stages of one attempt until one of them ends it. Then keeps or releases what the strategy has reserved,
/// depending on whether the object was stored.
async fn drive(mut attempt: Attempt<'_, '_>, stages: &[Stage]) -> Result<Option<Written>> {
    let mut outcome = Ok(None);
    for stage in stages {
        attempt.mutation.begin_stage();
        match stage(&mut attempt).await {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(written)) => {
                outcome = Ok(written);
                break;
            }
            Err(error) => {
                outcome = Err(error);
                break;
            }
        }
    }
    let stored = match &outcome {
        Ok(None) => Stored::No,
        _ if attempt.mutation.dry_run => Stored::No,
        outcome => stored_as(outcome),
    };
    attempt.reservation.finish(stored, attempt.registry).await;
    outcome
}

impl Registry {
    /// Creates an object from a decoded and defaulted body in the request's version.
    pub async fn create(&self, mutation: &mut Mutation<'_>, mut body: Value) -> Result<Written> {
        let row = self.row(&mutation.target.row)?;
        refuse_while_terminating(&row)?;
        let generates = object_meta::text(&body, "name").is_empty();
        let mut attempts = 0;
        loop {
            attempts += 1;
            mutation.attempt(attempts);
            mutation.warnings.clear();
            // Only a creation with a generated name is attempted more than once.
            let object = if generates { body.clone() } else { body.take() };
            match self.attempt_create(&row, mutation, object, None).await {
                Err(taken) if taken.is_already_exists() && generates && attempts < NAME_ATTEMPTS => {}
                outcome => return self.in_request_version(&row, mutation, outcome?).await,
            }
        }
    }

    /// Converts a written object to the request's version.
    async fn in_request_version(&self, row: &Row, mutation: &Mutation<'_>, written: Written) -> Result<Written> {
        let object = self.convert_one(row, mutation.target, written.object).await?;
        Ok(Written { object, ..written })
    }

    async fn attempt_create(
        &self,
        row: &Row,
        mutation: &mut Mutation<'_>,
        object: Value,
        update: Option<Managed>,
    ) -> Result<Written> {
        let attempt = Attempt {
            registry: self,
            row,
            mutation,
            live: None,
            is_update_that_creates: update.is_some(),
            is_managed: update == Some(Managed::Already),
            object,
            stored: Value::Null,
            name: String::new(),
            given_version: String::new(),
            reservation: Reservation::default(),
        };
        let written = drive(attempt, CREATE).await?;
        Ok(written.ok_or_else(|| Status::internal("a creation has no other writer to lose to"))?)
    }

    /// Updates the object that the mutation names, and tries again when another writer has changed it meanwhile.
    pub async fn update(&self, mutation: &mut Mutation<'_>, change: &dyn Change) -> Result<Written> {
        let row = self.row(&mutation.target.row)?;
        let key = row.key(mutation.namespace, mutation.name);
        for attempt in 1..=WRITE_ATTEMPTS {
            mutation.attempt(attempt);
            mutation.warnings.clear();
            let Some(current) = self.current(&row, mutation.namespace, mutation.name).await? else {
                // A kind that a PUT may create can also be created through its subresources.
                let may_create =
                    (mutation.subresource.is_empty() && change.creates()) || row.strategy.allow_create_on_update();
                if !may_create {
                    return Err(mutation.not_found());
                }
                let mut changed = change.change(None, &Conversions::default())?;
                set_defaults(mutation.served(), &mut changed.object);
                let managed = if changed.managed { Managed::Already } else { Managed::NotYet };
                match self.attempt_create(&row, mutation, changed.object, Some(managed)).await {
                    // Another writer created it meanwhile: the next attempt updates it.
                    Err(taken) if taken.is_already_exists() => continue,
                    outcome => return self.in_request_version(&row, mutation, outcome?).await,
                }
            };
            if let Some(written) = self.attempt_update(&row, mutation, change, &key, &current).await? {
                return self.in_request_version(&row, mutation, written).await;
            }
        }
        Err(mutation.modified())
    }

    /// Runs one attempt of an update; `None` when another writer changed the object first.
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
            old = old_served.clone();
        }
        let name = mutation.name.to_owned();
        let attempt = Attempt {
            registry: self,
            row,
            mutation,
            live: Some(Live { change, key, current, old, old_served }),
            is_update_that_creates: false,
            is_managed: false,
            object: Value::Null,
            stored: Value::Null,
            name,
            given_version: String::new(),
            reservation: Reservation::default(),
        };
        drive(attempt, UPDATE).await
    }
}

/// Tells whether the object was stored, for the reservations that belong to the write.
fn stored_as<T>(outcome: &Result<T>) -> Stored {
    match outcome {
        Ok(_) => Stored::Yes,
        Err(error) if error.is_outcome_unknown() => Stored::Unknown,
        Err(_) => Stored::No,
    }
}

/// Refuses to create custom resources whose definition is being deleted: otherwise its deletion might never finish.
fn refuse_while_terminating(row: &Row) -> Result<()> {
    if !row.resource.is_terminating {
        return Ok(());
    }
    let storage = row.resource.storage_version();
    let mut status = Status::method_not_allowed(&storage.group, &storage.resource, "create");
    status.message = "create not allowed while custom resource definition is terminating".into();
    Err(status.into())
}
