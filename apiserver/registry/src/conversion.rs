//! Conversion of custom resources by a webhook.
//!
//! Every other conversion is a function call. A webhook is a request to another server, so it is called in few places: a
//! read converts before it returns, a write before it stores, and pure code that needs a conversion runs again with it.

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

/// Maximum number of times that pure code runs again because it needs another conversion.
const ROUNDS: usize = 16;
/// Number of converted objects that are kept for other watches in the same version.
const MAX_RECENT: usize = 1024;

impl Registry {
    /// Converts the items of a list to the target's version.
    pub async fn convert_list(
        &self,
        row: &Row,
        target: &Target,
        objects: Vec<Arc<Object>>,
    ) -> Result<Vec<Arc<Object>>> {
        self.convert_objects(row, target, objects, true).await
    }

    /// Converts one object to the target's version.
    pub async fn convert_one(&self, row: &Row, target: &Target, object: Arc<Object>) -> Result<Arc<Object>> {
        if row.converter.is_none() {
            return Ok(object);
        }
        let mut shown = self.convert_objects(row, target, vec![object], false).await?;
        Ok(shown.pop().ok_or_else(|| Status::internal("a conversion lost its object"))?)
    }

    async fn convert_objects(
        &self,
        row: &Row,
        target: &Target,
        mut objects: Vec<Arc<Object>>,
        is_list: bool,
    ) -> Result<Vec<Arc<Object>>> {
        let Some(converter) = &row.converter else { return Ok(objects) };
        let served = target.served();
        let to = served.api_version();
        let indices: Vec<usize> = (0..objects.len()).filter(|index| !is_in(&objects[*index], &to)).collect();
        if indices.is_empty() {
            return Ok(objects);
        }
        let other = indices.iter().map(|index| objects[*index].to_value()).collect();
        let converted = converter.convert(self, other, &to, is_list).await?;
        for (index, value) in indices.into_iter().zip(converted) {
            let value = filled(served, value);
            let fields = target.row.fields_of(&value);
            objects[index] = Arc::new(Object::from_value(value, objects[index].revision, fields));
        }
        Ok(objects)
    }

    /// Converts objects for a watch. When several watches need the same object at once, one of them calls the webhook.
    pub async fn convert_for_watch(
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
            let key = key(object);
            recent.iter().rev().find(|(known, _)| *known == key).map(|(_, object)| object.clone())
        };
        let mut shown: Vec<Option<Arc<Object>>> = objects.iter().map(|object| find(&recent, object)).collect();
        let missing: Vec<Arc<Object>> =
            objects.iter().zip(&shown).filter(|(_, known)| known.is_none()).map(|(object, _)| object.clone()).collect();
        let mut converted = self.convert_objects(row, target, missing, false).await?.into_iter();
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

    /// Converts a JSON value to another version of the row, by a pure function or the webhook.
    pub(super) async fn as_served(&self, row: &Row, served: &Served, value: Value) -> Result<Value> {
        let Some(converter) = &row.converter else { return Ok(served.from_storage(value)) };
        let converted = converter.convert(self, vec![value], &served.api_version(), false).await?;
        let value = converted.into_iter().next().ok_or_else(|| Status::internal("a conversion lost its object"))?;
        Ok(filled(served, value))
    }

    /// Runs pure code, and runs it again with each conversion that it needs, until it needs no more.
    pub(super) async fn with_conversions<T>(&self, row: &Row, mut attempt: impl FnMut(&Conversions) -> T) -> Result<T> {
        let conversions = Conversions::default();
        for _ in 0..ROUNDS {
            let outcome = attempt(&conversions);
            let missing = conversions.take_missing();
            if missing.is_empty() {
                return Ok(outcome);
            }
            for (value, to) in missing {
                let served = row.resource.served.iter().find(|served| served.api_version() == to);
                let served = served.ok_or_else(|| Status::internal(format!("{to} is not served")))?;
                let converted = self.as_served(row, served, value.clone()).await?;
                conversions.record(&value, &to, converted);
            }
        }
        Err(Status::internal("the object's managers need too many conversions").into())
    }
}

/// Converts a target's objects between versions, for admission.
pub(super) struct RowVersions<'a> {
    pub registry: &'a Registry,
    pub target: &'a Target,
}

#[async_trait]
impl Versions for RowVersions<'_> {
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

/// Prunes and defaults a converted object, as a reader of that version sees it.
fn filled(served: &Served, value: Value) -> Value {
    let mut value = served.pruned(value);
    served.fill(&mut value);
    value
}

/// Tells whether an object is in a version. Its bytes begin with its apiVersion.
fn is_in(object: &Object, api_version: &str) -> bool {
    object.bytes().starts_with(format!("{{\"apiVersion\":\"{api_version}\"").as_bytes())
}
