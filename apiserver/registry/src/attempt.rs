//! `Attempt`: one try of a create or an update on its way through the stages of a write.

use super::mutation::{Change, Mutation, Written};
use super::row::Row;
use super::{Registry, Result};
use admission::Operation;
use proto::Object;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;
use strategy::Reservation;

/// What a stage says: go on, or end with what was written. `None`: another writer was faster.
pub(super) type Progress = Result<ControlFlow<Option<Written>>>;

/// What the stages of one try share.
pub(super) struct Attempt<'a, 'm> {
    pub registry: &'a Registry,
    pub row: &'a Row,
    pub mutation: &'a mut Mutation<'m>,
    /// The object that the update found; `None` for a creation.
    pub live: Option<Live<'a>>,
    /// Whether an update creates the object, because it found none.
    pub is_update_that_creates: bool,
    /// Whether `object` already has the managed fields that it shall have: server-side apply writes them itself.
    pub is_managed: bool,
    /// The new object in the request's version, until it is prepared for the store.
    pub object: Value,
    /// The new object in the storage version, from then on.
    pub stored: Value,
    /// The name of the object. A creation may generate it.
    pub name: String,
    /// The resourceVersion that the body of a creation named.
    pub given_version: String,
    /// What the strategy has reserved for the object.
    pub reservation: Reservation,
}

/// The object that an update changes.
pub(super) struct Live<'a> {
    pub change: &'a dyn Change,
    pub key: &'a str,
    pub current: &'a Arc<Object>,
    /// In the storage version. While a webhook converts the row, in the request's version until it is stored.
    pub old: Arc<Value>,
    /// In the request's version.
    pub old_served: Arc<Value>,
}

impl Attempt<'_, '_> {
    pub fn operation(&self) -> Operation {
        if self.live.is_some() { Operation::Update } else { Operation::Create }
    }
}
