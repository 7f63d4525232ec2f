//! The rules of ownership: how a write changes the field sets of all managers.
//!
//! Corresponds to sigs.k8s.io/structured-merge-diff/merge Updater.

use super::atoms::Type;
use super::compare::{Comparison, compare};
use super::fields::FieldSet;
use super::managers::{Manager, Managers, Owned};
use super::merge::{merge, with_named_fields, without};
use super::ownership::claimed;
use super::path::Path;
use super::versions::Versions;
use serde_json::Value;
use std::collections::BTreeMap;

/// Fields that an apply would change although others own them, by owner.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conflicts(pub BTreeMap<Manager, FieldSet>);

/// The reasons for which an apply is refused.
#[derive(Debug)]
pub enum ApplyError {
    /// Without `force`, fields of other managers must not change.
    Conflicts(Conflicts),
    /// The configuration and the object cannot be merged.
    Unmergeable(String),
}

impl Conflicts {
    pub fn each(&self) -> impl Iterator<Item = (&Manager, Path)> {
        self.0.iter().flat_map(|(manager, set)| set.paths().into_iter().map(move |path| (manager, path)))
    }

    /// Returns all fields in conflict, whoever owns them.
    pub fn fields(&self) -> FieldSet {
        self.0.values().fold(FieldSet::default(), |all, set| all.union(set))
    }

    pub fn without(&self, allowed: &FieldSet) -> Self {
        let kept = self.0.iter().map(|(manager, set)| (manager.clone(), set.difference(allowed)));
        Self(kept.filter(|(_, set)| !set.is_empty()).collect())
    }
}

/// What a write changes, in one version.
struct Changes {
    /// Fields that it added or modified.
    written: FieldSet,
    removed: FieldSet,
}

impl Changes {
    fn of(comparison: Comparison) -> Self {
        Self { written: comparison.added.union(&comparison.modified), removed: comparison.removed }
    }
}

/// Computes one write through one version.
#[derive(Clone, Copy)]
pub struct Updater<'a> {
    pub versions: Versions<'a>,
    pub api_version: &'a str,
    pub schema: Type<'a>,
    /// Fields that the endpoint resets: never claimed, never in conflict.
    pub reset: &'a FieldSet,
}

impl Updater<'_> {
    /// Computes ownership after an update. Returns the managers without the fields that were changed or removed, and the
    /// fields that the writer added or changed.
    pub fn update(&self, live: &Value, new: &Value, mut managers: Managers) -> (Managers, FieldSet) {
        let changes = match self.take_ownership(live, new, &mut managers, None, true) {
            Ok(changes) => changes,
            Err(_) => unreachable!("a forced write has no conflicts"),
        };
        (managers, changes.written)
    }

    /// Computes an apply. Returns the new object, or `None` if it does not change, and the managers.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        mut managers: Managers,
        manager: &Manager,
        force: bool,
    ) -> Result<(Option<Value>, Managers), ApplyError> {
        let merged = merge(self.schema, live, config).map_err(ApplyError::Unmergeable)?;
        let claims = claimed(self.schema, config).recursive_difference(self.reset);
        let api_version = self.api_version.to_owned();
        let before = managers.0.get(manager).cloned();
        let time = before.as_ref().and_then(|owned| owned.time.clone());
        managers.0.insert(manager.clone(), Owned { fields: claims, api_version, time });
        let pruned = self.prune(merged, &managers, before.as_ref());
        self.take_ownership(live, &pruned, &mut managers, Some(manager), force).map_err(ApplyError::Conflicts)?;
        managers.0.retain(|_, owned| !owned.fields.is_empty());
        Ok(((pruned != *live).then_some(pruned), managers))
    }

    /// Takes the changed fields from all other managers. Without `force`, returns them as conflicts instead.
    fn take_ownership(
        &self,
        old: &Value,
        new: &Value,
        managers: &mut Managers,
        writer: Option<&Manager>,
        force: bool,
    ) -> Result<Changes, Conflicts> {
        let changes = Changes::of(compare(self.schema, old, new).without(self.reset));
        let mut by_version: BTreeMap<String, Option<Changes>> = BTreeMap::new();
        by_version.insert(self.api_version.to_owned(), Some(changes));
        let mut conflicts = BTreeMap::new();
        let mut unserved = Vec::new();
        for (manager, owned) in managers.0.iter().filter(|(manager, _)| Some(*manager) != writer) {
            let version = by_version
                .entry(owned.api_version.clone())
                .or_insert_with(|| self.compare_in(&owned.api_version, old, new));
            let Some(version) = version else {
                unserved.push(manager.clone());
                continue;
            };
            let taken = owned.fields.intersection(&version.written);
            if !taken.is_empty() {
                conflicts.insert(manager.clone(), taken);
            }
        }
        if !force && !conflicts.is_empty() {
            return Err(Conflicts(conflicts));
        }
        for manager in unserved {
            managers.0.remove(&manager);
        }
        for (manager, owned) in managers.0.iter_mut().filter(|(manager, _)| Some(*manager) != writer) {
            if let Some(taken) = conflicts.get(manager) {
                owned.fields.subtract(taken);
            }
            if let Some(Some(version)) = by_version.get(&owned.api_version) {
                owned.fields.subtract(&version.removed);
            }
        }
        managers.0.retain(|manager, owned| Some(manager) == writer || !owned.fields.is_empty());
        Ok(by_version.remove(self.api_version).flatten().expect("the writer's version is the first"))
    }

    /// Compares two objects in another version; `None` if that version is no longer served.
    fn compare_in(&self, api_version: &str, old: &Value, new: &Value) -> Option<Changes> {
        let schema = self.versions.schema(api_version)?;
        let old = self.versions.convert(old, self.api_version, api_version)?;
        let new = self.versions.convert(new, self.api_version, api_version)?;
        Some(Changes::of(compare(schema, &old, &new).without(self.reset)))
    }

    /// Removes the fields that the manager applied before and does not apply now, unless another manager owns them.
    fn prune(&self, merged: Value, managers: &Managers, before: Option<&Owned>) -> Value {
        let Some(before) = before.filter(|owned| !owned.fields.is_empty()) else { return merged };
        let Some(schema) = self.versions.schema(&before.api_version) else { return merged };
        let Some(whole) = self.versions.convert(&merged, self.api_version, &before.api_version) else { return merged };
        let last = with_named_fields(schema, &before.fields);
        let mut pruned = without(schema, &whole, &last);
        pruned = self.add_back_owned(&whole, pruned, &before.api_version, managers);

        // Fields that did not belong to the manager stay, too.
        let kept = with_named_fields(schema, &claimed(schema, &pruned));
        let all = with_named_fields(schema, &claimed(schema, &whole));
        let result = without(schema, &whole, &all.difference(&kept).intersection(&last));
        match self.versions.convert(&result, &before.api_version, self.api_version) {
            Some(result) => result.into_owned(),
            None => merged,
        }
    }

    /// Restores pruned fields of `whole` that any manager owns, in the version in which that manager wrote them.
    fn add_back_owned(&self, whole: &Value, pruned: Value, version: &str, managers: &Managers) -> Value {
        let mut owned: BTreeMap<&str, FieldSet> = BTreeMap::new();
        for by in managers.0.values() {
            let set = owned.entry(&by.api_version).or_default();
            *set = set.union(&by.fields);
        }
        // Begin with the version that was pruned: others may not convert without its required fields.
        let first = owned.remove_entry(version);
        let mut pruned = pruned;
        for (other, fields) in first.into_iter().chain(owned) {
            let back = self.versions.schema(other).and_then(|schema| {
                let whole = self.versions.convert(whole, version, other)?;
                let rest = self.versions.convert(&pruned, version, other)?;
                let all = with_named_fields(schema, &claimed(schema, &whole));
                let rest = with_named_fields(schema, &claimed(schema, &rest));
                let fields = with_named_fields(schema, &fields);
                let result = without(schema, &whole, &all.difference(&rest.union(&fields)));
                Some(self.versions.convert(&result, other, version)?.into_owned())
            });
            pruned = back.unwrap_or(pruned);
        }
        pruned
    }
}
