//! Server-side apply, and `managedFields`: the record of which manager owns which field.
//!
//! Every write passes here after admission. An update records the fields that its manager changed. An apply merges a
//! configuration, refuses to change fields of other managers, and removes the fields that its manager no longer sets.
//! Objects are in the request's version. Corresponds to k8s.io/apimachinery/pkg/util/managedfields and
//! sigs.k8s.io/structured-merge-diff.
//!
//! Reading order: [`path`], [`fields`] and [`managers`] (the record); [`atoms`], [`ownership`], [`compare`] and
//! [`merge`] (values and their schemas); [`updater`] (conflicts); this file.

pub mod path;
pub mod fields;
pub mod managers;
pub mod atoms;
pub mod ownership;
pub mod compare;
pub mod merge;
pub mod conversions;
pub mod versions;
pub mod updater;
pub mod last_applied;
pub mod scale;
pub mod zero;
pub mod fuzz;

#[cfg(test)]
mod tests;

use atoms::Type;
use conversions::Conversions;
use fields::FieldSet;
use jiff::Timestamp;
use managers::{Manager, Managers, Owned, UnreadableEntry};
use proto::Status;
use proto::gvk::split_api_version;
use proto::meta::status::Cause;
use proto::resources::{Resource, Served};
use proto::schema::Schema;
use serde_json::{Map, Value};
use std::sync::LazyLock;
use updater::{ApplyError, Conflicts, Updater};
use versions::Versions;

/// Largest number of update managers of an object; older ones are merged.
pub const MAX_UPDATE_MANAGERS: usize = 10;

/// Name of the manager for all changes before the first apply.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);

/// Fields that no manager owns: identity, and what the server writes.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    FieldSet::of([
        ["apiVersion"].as_slice(),
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ])
});

/// Field ownership at one endpoint: a version of a resource, or one of its subresources.
pub struct FieldManager<'a> {
    versions: Versions<'a>,
    /// The version and kind of the request.
    api_version: String,
    kind: &'a str,
    schema: &'a Schema,
    /// Empty for the object itself.
    subresource: &'a str,
    /// Fields that this endpoint resets: `status` when the object itself is written, `spec` when its status is.
    reset: &'a FieldSet,
    now: Timestamp,
}

impl<'a> FieldManager<'a> {
    pub fn new(
        row: &'a Resource,
        served: &'a Served,
        subresource: &'a str,
        reset: &'a FieldSet,
        now: Timestamp,
    ) -> Self {
        let schema = served.schema.schema();
        let versions = Versions::Of { row, conversions: None };
        Self { versions, api_version: served.api_version(), kind: &served.kind, schema, subresource, reset, now }
    }

    /// Uses the results of a conversion webhook, for a resource that has one.
    pub fn with_conversions(self, conversions: &'a Conversions) -> Self {
        let versions = match self.versions {
            Versions::Of { row, .. } => Versions::Of { row, conversions: Some(conversions) },
            only => only,
        };
        Self { versions, ..self }
    }

    /// Manages the body of the `scale` subresource of any resource; `scale` is its schema.
    pub fn of_scale(scale: &'a Schema, now: Timestamp) -> Self {
        Self {
            versions: Versions::Only { api_version: scale::SCALE_VERSION, schema: Type::of(scale) },
            api_version: scale::SCALE_VERSION.to_owned(),
            kind: "Scale",
            schema: scale,
            subresource: "scale",
            reset: &NOTHING,
            now,
        }
    }

    fn schema(&self) -> Type<'a> {
        Type::of(self.schema)
    }

    fn updater(&self) -> Updater<'_> {
        Updater { versions: self.versions, api_version: &self.api_version, schema: self.schema(), reset: self.reset }
    }

    fn time(&self) -> String {
        proto::meta::time::format(self.now)
    }

    /// Records in `new` the fields that `manager` has changed of `live` (`None` for a creation). Never fails: an
    /// unreadable record does not refuse an update.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str) {
        let managers = self.managers_of_update(live, new);
        remove_managed_fields(new);
        if managers.is_empty() && live.is_some() {
            return; // no manager has applied to it yet, and the client sent no record
        }
        let zero;
        let live = match live {
            Some(live) => live,
            None => {
                zero = zero::zero(self.schema);
                &zero
            }
        };
        self.record(live, new, managers, manager).write_into(new);
    }

    /// Returns the managers after an update by `manager`, which owns the fields that it changed.
    fn record(&self, live: &Value, new: &Value, managers: Managers, manager: &str) -> Managers {
        let (mut managers, changed) = self.updater().update(live, new, managers);
        let changed = changed.difference(&NEVER_OWNED);
        if !changed.is_empty() {
            let api_version = self.api_version.clone();
            let manager = Manager::updater(manager, &api_version, self.subresource);
            let before = managers.0.remove(&manager).map(|owned| owned.fields).unwrap_or_default();
            let fields = before.union(&changed);
            managers.0.insert(manager, Owned { fields, api_version, time: Some(self.time()) });
        }
        managers.cap_updaters(MAX_UPDATE_MANAGERS);
        managers
    }

    /// Returns the record that an update starts from. Only a request for the object itself may rewrite or reset it.
    fn managers_of_update(&self, live: Option<&Value>, new: &Value) -> Managers {
        let of_live = || live.and_then(|live| Managers::read(managed_fields(live)?).ok()).unwrap_or_default();
        if !self.subresource.is_empty() {
            return of_live();
        }
        match managed_fields(new) {
            None => of_live(),
            Some([]) => Managers::default(),
            Some([Value::Object(only)]) if only.is_empty() => Managers::default(),
            Some(entries) => match Managers::read(entries) {
                Ok(managers) if !managers.is_empty() => managers,
                _ => of_live(),
            },
        }
    }

    /// Returns `config` merged into `live` (`None` if the object is to be created), with an updated record.
    /// The result may hold nulls and lacks defaults: it has to be decoded again.
    pub fn apply(&self, live: Option<&Value>, config: &Value, manager: &str, force: bool) -> Result<Value, Status> {
        self.check_configuration(config)?;
        let empty = Value::Object(Map::new());
        let live_or_empty = live.unwrap_or(&empty);
        let bare = without_managed_fields(live_or_empty);
        let mut managers = Managers::read(managed_fields(live_or_empty).unwrap_or_default())
            .map_err(|e| without_reason(format!("failed to decode managed fields: {e}")))?;
        if managers.is_empty() && live.is_some() {
            let zero = zero::zero(self.schema);
            managers = self.record(&zero, &bare, managers, BEFORE_FIRST_APPLY);
        }

        let applier = Manager::applier(manager, self.subresource);
        let (object, mut managers) = apply_over_last_applied(&self.updater(), &bare, config, managers, &applier, force)
            .map_err(|error| match error {
                ApplyError::Conflicts(conflicts) => conflict_status(&conflicts),
                ApplyError::Unmergeable(why) => without_reason(format!("failed to merge config: {why}")),
            })?;
        let changed = object.is_some();
        let mut object = object.unwrap_or(bare);
        if let Some(mut owned) = managers.0.remove(&applier) {
            owned.fields = owned.fields.difference(&NEVER_OWNED);
            if changed {
                owned.time = Some(self.time());
            }
            if !owned.fields.is_empty() {
                managers.0.insert(applier, owned);
            }
        }
        if manager == last_applied::MANAGER {
            last_applied::update_annotation(&mut object, config);
        }
        managers.write_into(&mut object);
        Ok(object)
    }

    fn check_configuration(&self, config: &Value) -> Result<(), Status> {
        let text = |key: &str| config.get(key).and_then(Value::as_str).unwrap_or_default();
        let (group, version) = split_api_version(text("apiVersion"));
        let kind = format!("{group}/{version}, Kind={}", text("kind"));
        if text("apiVersion") != self.api_version || text("kind") != self.kind {
            return Err(Status::bad_request(format!("invalid object type: {kind}")));
        }
        if config.pointer("/metadata/managedFields").is_some_and(|entries| !entries.is_null()) {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let type_errors = ownership::type_errors(self.schema(), config);
        let why = match type_errors.as_slice() {
            [] => return Ok(()),
            [one] => one.clone(),
            several => format!("errors:\n  {}", several.join("\n  ")),
        };
        let meta = |key: &str| config.pointer(&format!("/metadata/{key}")).and_then(Value::as_str).unwrap_or_default();
        let (namespace, name) = (meta("namespace"), meta("name"));
        Err(without_reason(format!("failed to create typed patch object ({namespace}/{name}; {kind}): {why}")))
    }
}

/// Applies for `kubectl`, without conflicts over fields that are unchanged since client-side apply.
fn apply_over_last_applied(
    updater: &Updater<'_>,
    live: &Value,
    config: &Value,
    managers: Managers,
    applier: &Manager,
    force: bool,
) -> Result<(Option<Value>, Managers), ApplyError> {
    let first = updater.apply(live, config, managers.clone(), applier, force);
    let Err(ApplyError::Conflicts(conflicts)) = &first else { return first };
    if applier.name != last_applied::MANAGER {
        return first;
    }
    let allowed = last_applied::unchanged_since_applied(updater.schema, live, updater.api_version);
    if !conflicts.fields().difference(&allowed).is_empty() {
        return Err(ApplyError::Conflicts(conflicts.without(&allowed)));
    }
    updater.apply(live, config, managers, applier, true)
}

fn managed_fields(object: &Value) -> Option<&[Value]> {
    object.get("metadata")?.get("managedFields")?.as_array().map(Vec::as_slice)
}

pub fn remove_managed_fields(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// Copies an object without its record of managers, which is about half of the nodes of its tree.
pub fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(fields) = object else { return object.clone() };
    let copied = |(name, value): (&String, &Value)| match value {
        Value::Object(metadata) if name == "metadata" => {
            let kept = metadata.iter().filter(|(name, _)| *name != "managedFields");
            (name.clone(), Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect()))
        }
        value => (name.clone(), value.clone()),
    };
    Value::Object(fields.iter().map(copied).collect())
}

/// Restores the record of `old` if the one of `new` cannot be read, and returns the reason.
pub fn keep_readable_record(old: &Value, new: &mut Value) -> Result<(), UnreadableEntry> {
    let (before, after) = (managed_fields(old), managed_fields(new));
    if before == after {
        return Ok(());
    }
    let read = Managers::read(after.unwrap_or_default());
    if read.is_err()
        && let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut)
    {
        match before {
            Some(entries) => drop(metadata.insert("managedFields".to_owned(), Value::Array(entries.to_vec()))),
            None => drop(metadata.remove("managedFields")),
        }
    }
    read.map(drop)
}

/// Returns a status of code 500 and without a reason, as Kubernetes answers here.
fn without_reason(message: String) -> Status {
    Status::failure(500, "", message)
}

fn conflict_status(conflicts: &Conflicts) -> Status {
    let each: Vec<_> = conflicts.each().collect();
    let message = match each.as_slice() {
        [(manager, path)] => format!("Apply failed with 1 conflict: conflict with {manager}: {path}"),
        several => {
            let mut message = format!("Apply failed with {} conflicts:", several.len());
            let mut last = None;
            for (manager, path) in several {
                if last != Some(manager) {
                    let space = if last.is_none() { " " } else { "\n" };
                    message.push_str(&format!("{space}conflicts with {manager}:"));
                    last = Some(manager);
                }
                message.push_str(&format!("\n- {path}"));
            }
            message
        }
    };
    let mut status = Status::failure(409, "Conflict", message);
    status.details.get_or_insert_default().causes = each
        .iter()
        .map(|(manager, path)| Cause {
            reason: "FieldManagerConflict".to_owned(),
            message: format!("conflict with {manager}"),
            field: path.to_string(),
        })
        .collect();
    status
}

/// Restores the old times of the managers if `new` differs from `old` in nothing else, so that the object does not
/// change.
pub fn forget_new_times_if_unchanged(old: &Value, new: &mut Value) {
    let (Some(before), Some(after)) = (managed_fields(old), managed_fields(new)) else { return };
    if before == after || !equal_but_managed_fields(old, new) || without_times(before) != without_times(after) {
        return;
    }
    let before = before.to_vec();
    new["metadata"]["managedFields"] = Value::Array(before);
}

/// Returns the entries without their times, in an order that does not depend on them.
fn without_times(entries: &[Value]) -> Vec<String> {
    let text = |entry: &Value| {
        let mut entry = entry.clone();
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
        entry.to_string()
    };
    let mut entries: Vec<String> = entries.iter().map(text).collect();
    entries.sort();
    entries
}

fn equal_but_managed_fields(old: &Value, new: &Value) -> bool {
    let (before, after) = (old.get("metadata"), new.get("metadata"));
    fields_except(Some(old), &["metadata"]).eq(fields_except(Some(new), &["metadata"]))
        && fields_except(before, &["managedFields", "resourceVersion"])
            .eq(fields_except(after, &["managedFields", "resourceVersion"]))
}

/// Returns the fields of an object except those named.
fn fields_except<'v>(
    object: Option<&'v Value>,
    but: &'static [&'static str],
) -> impl Iterator<Item = (&'v String, &'v Value)> {
    let fields = object.and_then(Value::as_object).into_iter().flatten();
    fields.filter(move |(key, _)| !but.contains(&key.as_str()))
}
