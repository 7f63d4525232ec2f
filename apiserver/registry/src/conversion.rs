//! Objects in the version that is asked for, where only a webhook can convert them.
//!
//! Everywhere else a conversion is a function call. Here it takes a question to another server, so that it happens at
//! the edge: what is read is converted before anybody shows it, what is written before it is stored, and pure code that
//! needs a conversion is run again when there is one.

use super::converter::RecentKey;
use super::row::Row;
use super::{Registry, Result};
use admission::Versions;
use async_trait::async_trait;
use patch::apply::conversions::Conversions;
use proto::resources::{Served, Target};
use proto::{Object, Status};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;

/// Questions that one piece of pure code may come up with, one after the other.
const ROUNDS: usize = 16;
/// Converted objects that are kept for the next watch that wants the same.
const MAX_RECENT: usize = 1024;

impl Registry {
    /// Objects of a row as the target shows them.
    pub async fn shown(&self, row: &Row, target: &Target, objects: Vec<Arc<Object>>) -> Result<Vec<Arc<Object>>> {
        self.shown_as(row, target, objects, true).await
    }

    pub async fn shown_one(&self, row: &Row, target: &Target, object: Arc<Object>) -> Result<Arc<Object>> {
        if row.converter.is_none() {
            return Ok(object);
        }
        let mut shown = self.shown_as(row, target, vec![object], false).await?;
        Ok(shown.pop().ok_or_else(|| Status::internal("a conversion lost its object"))?)
    }

    async fn shown_as(
        &self,
        row: &Row,
        target: &Target,
        mut objects: Vec<Arc<Object>>,
        is_list: bool,
    ) -> Result<Vec<Arc<Object>>> {
        let Some(converter) = &row.converter else { return Ok(objects) };
        let served = target.served();
        let to = served.api_version();
        let places: Vec<usize> = (0..objects.len()).filter(|place| !is_in(&objects[*place], &to)).collect();
        if places.is_empty() {
            return Ok(objects);
        }
        let other = places.iter().map(|place| objects[*place].to_value()).collect();
        let converted = converter.convert(self, other, &to, is_list).await?;
        for (place, value) in places.into_iter().zip(converted) {
            let value = filled(served, value);
            let fields = target.row.fields_of(&value);
            objects[place] = Arc::new(Object::from_value(value, objects[place].revision, fields));
        }
        Ok(objects)
    }

    /// The same for many watches: of those that want one object at a time, one asks.
    pub async fn shown_to_watch(
        &self,
        row: &Row,
        target: &Target,
        objects: Vec<Arc<Object>>,
    ) -> Result<Vec<Arc<Object>>> {
        let key = |object: &Object| (object.index.uid.clone(), object.revision, target.served);
        let to = target.served().api_version();
        if objects.iter().all(|object| is_in(object, &to)) {
            return Ok(objects);
        }
        let mut recent = row.recent.lock().await;
        let find = |recent: &VecDeque<(RecentKey, Arc<Object>)>, object: &Object| {
            let wanted = key(object);
            recent.iter().rev().find(|(known, _)| *known == wanted).map(|(_, object)| object.clone())
        };
        let mut shown: Vec<Option<Arc<Object>>> = objects.iter().map(|object| find(&recent, object)).collect();
        let missing: Vec<Arc<Object>> =
            objects.iter().zip(&shown).filter(|(_, known)| known.is_none()).map(|(object, _)| object.clone()).collect();
        let mut converted = self.shown_as(row, target, missing, false).await?.into_iter();
        for (object, slot) in objects.iter().zip(&mut shown).filter(|(_, slot)| slot.is_none()) {
            let fresh = converted.next();
            *slot = fresh.clone();
            recent.extend(fresh.map(|fresh| (key(object), fresh)));
        }
        while recent.len() > MAX_RECENT {
            recent.pop_front();
        }
        Ok(shown.into_iter().flatten().collect())
    }

    /// A tree of the row in another of its versions, as pure functions or a webhook convert it.
    pub(super) async fn as_served(&self, row: &Row, served: &Served, value: Value) -> Result<Value> {
        let Some(converter) = &row.converter else { return Ok(served.from_storage(value)) };
        let converted = converter.convert(self, vec![value], &served.api_version(), false).await?;
        let value = converted.into_iter().next().ok_or_else(|| Status::internal("a conversion lost its object"))?;
        Ok(filled(served, value))
    }

    /// Runs pure code as often as it takes to have all conversions that it needs.
    pub(super) async fn with_conversions<T>(&self, row: &Row, mut attempt: impl FnMut(&Conversions) -> T) -> Result<T> {
        let conversions = Conversions::default();
        for _ in 0..ROUNDS {
            let outcome = attempt(&conversions);
            let wanted = conversions.take_missing();
            if wanted.is_empty() {
                return Ok(outcome);
            }
            for (value, to) in wanted {
                let served = row.resource.served.iter().find(|served| served.api_version() == to);
                let served = served.ok_or_else(|| Status::internal(format!("{to} is not served")))?;
                let converted = self.as_served(row, served, value.clone()).await?;
                conversions.record(&value, &to, converted);
            }
        }
        Err(Status::internal("the object's managers need too many conversions").into())
    }
}

/// The versions of a target's row, for admission.
pub(super) struct OfRegistry<'a> {
    pub registry: &'a Registry,
    pub target: &'a Target,
}

#[async_trait]
impl Versions for OfRegistry<'_> {
    fn target(&self) -> &Target {
        self.target
    }

    async fn convert(&self, object: Value, from: usize, to: usize) -> std::result::Result<Value, Status> {
        let row = &self.target.row;
        if row.converts_by_webhook() {
            return Ok(self.registry.as_served(&*self.registry.row(row)?, &row.served[to], object).await?);
        }
        Ok(row.served[to].from_storage(row.to_storage(from, object)))
    }
}

/// As a reader of that version sees it.
fn filled(served: &Served, value: Value) -> Value {
    let mut value = served.pruned(value);
    served.fill(&mut value);
    value
}

/// Stored bytes begin with their version.
fn is_in(object: &Object, api_version: &str) -> bool {
    object.bytes().starts_with(format!("{{\"apiVersion\":\"{api_version}\"").as_bytes())
}
