//! Create and update: the stages that every mutation goes through, as a list of values, and the loop around them.
//!
//! One driver runs the stages. Where another writer was faster, an update begins again from the top.
//! Corresponds to k8s.io/apiserver/pkg/registry/generic/registry/store.go and the handlers' transformers. As there,
//! managed fields are noted before mutating admission: nobody owns what plugins fill in.

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

/// Names that are tried before a generated one is given up.
const NAME_ATTEMPTS: usize = 8;
/// Rounds of one write before it is given up: each lost one means that another writer won.
const WRITE_ATTEMPTS: usize = 64;

/// Whether a change has written the managed fields itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Managed {
    Already,
    NotYet,
}

/// One stage of a write.
type Stage = for<'s> fn(&'s mut Attempt<'_, '_>) -> BoxFuture<'s, Progress>;

/// The stages of a creation, in their order.
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

/// The stages of an update, in their order.
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

/// Runs the stages of one try until one ends it. What was reserved is kept or let go by what became of the write.
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
            match self.attempt_create(&row, mutation, object, None).await {
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
                let managed = if changed.managed { Managed::Already } else { Managed::NotYet };
                match self.attempt_create(&row, mutation, changed.object, Some(managed)).await {
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

/// What has become of the write that something was reserved for.
fn stored_as<T>(outcome: &Result<T>) -> Stored {
    match outcome {
        Ok(_) => Stored::Yes,
        Err(error) if error.is_store_silent() => Stored::Unknown,
        Err(_) => Stored::No,
    }
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
