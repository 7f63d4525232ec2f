//! `Attempt`: the state of one attempt to create or update an object, which the stages of the write share.

use super::mutation::{Change, Mutation, Written};
use super::row::Row;
use super::{Registry, Result};
use admission::Operation;
use proto::Object;
use serde_json::Value;
use std::ops::ControlFlow;
use std::sync::Arc;
use strategy::Reservation;

/// Result of a stage: continue with the next stage, or end the attempt with the written object. `Break(None)` means that
/// another writer changed the object first.
pub(super) type Progress = Result<ControlFlow<Option<Written>>>;

/// One attempt to create or update an object.
pub(super) struct Attempt<'a, 'm> {
    pub registry: &'a Registry,
    pub row: &'a Row,
    pub mutation: &'a mut Mutation<'m>,
    /// The object that the update changes; `None` for a creation.
    pub live: Option<Live<'a>>,
    /// True when an update creates its object because there was none.
    pub is_update_that_creates: bool,
    /// True when `object` already has its managed fields: server-side apply records them itself.
    pub is_managed: bool,
    /// The new object in the request's version. The stage that prepares the object moves it to `stored`.
    pub object: Value,
    /// The new object in the storage version; null before it is prepared.
    pub stored: Value,
    /// The name of the object. A creation may generate it.
    pub name: String,
    /// The resourceVersion in the body of a creation.
    pub given_version: String,
    /// What the strategy has reserved for the object.
    pub reservation: Reservation,
}

/// The stored object that an update changes.
pub(super) struct Live<'a> {
    pub change: &'a dyn Change,
    pub key: &'a str,
    pub current: &'a Arc<Object>,
    /// `current` in the storage version; in the request's version when a webhook converts the row, because the new object
    /// then stays in that version until it is stored.
    pub old: Arc<Value>,
    /// `current` in the request's version.
    pub old_served: Arc<Value>,
}

impl Attempt<'_, '_> {
    pub fn operation(&self) -> Operation {
        if self.live.is_some() { Operation::Update } else { Operation::Create }
    }
}
