//! `Rules`: the strategy of one kind as a row of a table, and `ByRules`, which carries out every row.
//!
//! Most strategies of Kubernetes do the same: they write status and spec apart, raise the generation when the spec
//! changes, and validate metadata. A row says which of these rules hold for its kind, and adds the functions that are
//! specific to it.

use crate::validation::object_meta;
use crate::validation::object_meta::NameRule;
use crate::validation::restore::restore;
use crate::write_context::WriteContext;
use crate::{Grace, Strategy};
use async_trait::async_trait;
use field_checks::at::{At, Errors};
use patch::apply::zero;
use proto::meta::status::FieldError;
use serde_json::{Value, json};

pub type Prepare = fn(&WriteContext<'_>, &mut Value);
pub type PrepareUpdate = fn(&WriteContext<'_>, &mut Value, &Value);
pub type Validate = fn(&WriteContext<'_>, &At<'_>, &mut Errors);
pub type ValidateUpdate = fn(&WriteContext<'_>, &At<'_>, &At<'_>, &mut Errors);
/// The last argument is the old object, or `None` for a creation.
pub type Warnings = fn(&WriteContext<'_>, &At<'_>, Option<&At<'_>>) -> Vec<String>;

/// Metadata that a write of `status` cannot change, for kinds that restore all of it.
pub const STATUS_METADATA: &[&[&str]] = &[
    &["metadata", "annotations"],
    &["metadata", "finalizers"],
    &["metadata", "labels"],
    &["metadata", "ownerReferences"],
];

/// The changes that raise `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The server does not set the generation, and keeps the one that a client sends.
    None,
    /// It is always 1.
    One,
    /// Changes below these paths.
    Of(&'static [&'static str]),
}

/// The strategy of one kind.
#[derive(Clone, Copy)]
pub struct Rules {
    pub group: &'static str,
    pub resource: &'static str,
    pub name: NameRule,
    pub generation: Generation,
    /// Whether a client may create the object with a status.
    pub status_on_create: bool,
    pub create: Prepare,
    /// Prepares updates of the object itself and of all subresources but `status`.
    pub update: PrepareUpdate,
    pub update_status: PrepareUpdate,
    /// Changes the object when its deletion begins.
    pub delete: Prepare,
    /// Whether a finalizer without a domain is refused, unless it is one of Kubernetes' own.
    pub core_finalizers: bool,
    pub validate: Validate,
    /// Whether an update also has to pass `validate`, before `validate_update`.
    pub revalidates: bool,
    /// Whether the update check of the kind validates metadata a second time, which reports its errors twice.
    pub revalidates_metadata: bool,
    /// Whether the errors of `validate_update` come before those of metadata and `validate`, not after them.
    pub update_first: bool,
    pub validate_update: ValidateUpdate,
    pub validate_status: ValidateUpdate,
    pub warnings: Warnings,
    /// Makes the last change before the object is stored.
    pub canonicalize: fn(&mut Value),
    pub create_on_update: bool,
    pub unconditional_update: bool,
    pub grace: fn(&Value, Option<i64>) -> Grace,
    /// Returns whether a field of the object beside `metadata.finalizers` keeps it from being removed.
    pub is_held: fn(&Value) -> bool,
    /// Fields beside `spec` that the status endpoint resets.
    pub status_resets: &'static [&'static [&'static str]],
}

impl Rules {
    /// The rules of a kind whose row does not say otherwise.
    pub const DEFAULT: Self = Self {
        group: "",
        resource: "",
        name: object_meta::subdomain,
        generation: Generation::None,
        status_on_create: false,
        create: |_, _| {},
        update: |_, _, _| {},
        update_status: |_, _, _| {},
        delete: |_, _| {},
        core_finalizers: true,
        validate: |_, _, _| {},
        revalidates: true,
        revalidates_metadata: true,
        update_first: false,
        validate_update: |_, _, _, _| {},
        validate_status: |_, _, _, _| {},
        warnings: |_, _, _| Vec::new(),
        canonicalize: |_| {},
        create_on_update: false,
        unconditional_update: true,
        grace: |_, _| Grace::None,
        is_held: |_| false,
        status_resets: &[],
    };
}

/// Subresources that carry out an action. The generic handling of spec, status and generation does not apply to them.
const ACTIONS: &[&str] = &["binding", "eviction", "approval"];

/// The strategy that carries out a row of rules.
pub struct ByRules(pub Rules);

pub fn has_status(context: &WriteContext<'_>) -> bool {
    context.row.storage_version().subresource("status").is_some()
}

/// Removes the status, or replaces it by the zero status for a kind that always writes one.
pub fn reset_status(context: &WriteContext<'_>, object: &mut Value) {
    let schema = context.row.storage_version().schema.schema();
    match (zero::always(schema, "status"), object.as_object_mut()) {
        (Some(status), Some(fields)) => {
            fields.insert("status".to_owned(), status);
        }
        (None, Some(fields)) => {
            fields.remove("status");
        }
        _ => {}
    }
}

/// Restores the old object except for the new metadata and status.
fn keep_only_status(object: &mut Value, old: &Value) {
    let (Some(fields), Some(before)) = (object.as_object_mut(), old.as_object()) else { return };
    let written = ["metadata", "status", "apiVersion", "kind"];
    fields.retain(|name, _| written.contains(&name.as_str()) || before.contains_key(name));
    for (name, value) in before {
        if !written.contains(&name.as_str()) {
            fields.insert(name.clone(), value.clone());
        }
    }
}

/// Returns an object of the row's kind as a place whose type is known.
fn root<'v>(context: &WriteContext<'_>, object: &'v Value) -> At<'v> {
    At::typed_root(&context.row.storage_version().schema, object)
}

fn drop_disabled_fields(context: &WriteContext<'_>, object: &mut Value, old: Option<&Value>) {
    context.gates.drop_fields((context.group(), context.resource()), object, old);
}

fn at_path<'v>(value: &'v Value, path: &str) -> &'v Value {
    path.split('.').try_fold(value, |value, name| value.get(name)).unwrap_or(&Value::Null)
}

impl Generation {
    fn counts(self, object: &Value, old: &Value) -> bool {
        match self {
            Self::None | Self::One => false,
            Self::Of(paths) => paths.iter().any(|path| at_path(object, path) != at_path(old, path)),
        }
    }
}

impl ByRules {
    fn metadata_errors(&self, context: &WriteContext<'_>, object: &At<'_>, errors: &mut Errors) {
        let meta = object.field("metadata");
        object_meta::validate(&meta, context.row.is_namespaced(), self.0.name, errors);
        if self.0.core_finalizers {
            object_meta::validate_core_finalizers(&meta, errors);
        }
    }
}

#[async_trait]
impl Strategy for ByRules {
    fn prepare_for_create(&self, context: &WriteContext<'_>, object: &mut Value) {
        if has_status(context) && !self.0.status_on_create {
            reset_status(context, object);
        }
        if self.0.generation != Generation::None {
            object["metadata"]["generation"] = json!(1);
        }
        drop_disabled_fields(context, object, None);
        (self.0.create)(context, object);
    }

    fn prepare_for_update(&self, context: &WriteContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled_fields(context, object, Some(old));
        if context.subresource == "status" {
            keep_only_status(object, old);
            for path in self.0.status_resets {
                restore(object, old, path);
            }
            (self.0.update_status)(context, object, old);
            return;
        }
        if ACTIONS.contains(&context.subresource) {
            (self.0.update)(context, object, old);
            return;
        }
        if has_status(context) {
            restore(object, old, &["status"]);
        }
        (self.0.update)(context, object, old);
        if self.0.generation.counts(object, old) {
            let generation = at_path(old, "metadata.generation").as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
        }
    }

    fn validate(&self, context: &WriteContext<'_>, object: &Value) -> Vec<FieldError> {
        let object = root(context, object);
        let mut errors = Errors::new();
        self.metadata_errors(context, &object, &mut errors);
        (self.0.validate)(context, &object, &mut errors);
        errors
    }

    fn validate_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<FieldError> {
        let (object, old) = (root(context, object), root(context, old));
        let (meta, old_meta) = (object.field("metadata"), old.field("metadata"));
        let mut errors = Errors::new();
        object_meta::validate(&meta, context.row.is_namespaced(), object_meta::path_segment, &mut errors);
        object_meta::validate_update(&meta, &old_meta, &mut errors);
        object_meta::validate_update(&meta, &old_meta, &mut errors);
        if context.subresource == "status" {
            (self.0.validate_status)(context, &object, &old, &mut errors);
            return errors;
        }
        if ACTIONS.contains(&context.subresource) {
            (self.0.validate_update)(context, &object, &old, &mut errors);
            return errors;
        }
        if self.0.update_first {
            (self.0.validate_update)(context, &object, &old, &mut errors);
        }
        if self.0.revalidates_metadata {
            self.metadata_errors(context, &object, &mut errors);
        }
        if self.0.revalidates {
            (self.0.validate)(context, &object, &mut errors);
        }
        if !self.0.update_first {
            (self.0.validate_update)(context, &object, &old, &mut errors);
        }
        errors
    }

    fn warnings_on_create(&self, context: &WriteContext<'_>, object: &Value) -> Vec<String> {
        (self.0.warnings)(context, &root(context, object), None)
    }

    fn warnings_on_update(&self, context: &WriteContext<'_>, object: &Value, old: &Value) -> Vec<String> {
        if context.subresource == "status" {
            return Vec::new();
        }
        (self.0.warnings)(context, &root(context, object), Some(&root(context, old)))
    }

    fn canonicalize(&self, object: &mut Value) {
        (self.0.canonicalize)(object);
    }

    fn allow_create_on_update(&self) -> bool {
        self.0.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.0.unconditional_update
    }

    fn prepare_for_delete(&self, context: &WriteContext<'_>, object: &mut Value) {
        (self.0.delete)(context, object);
    }

    fn graceful_delete(&self, _context: &WriteContext<'_>, object: &Value, requested_s: Option<i64>) -> Grace {
        (self.0.grace)(object, requested_s)
    }

    fn is_held(&self, object: &Value) -> bool {
        (self.0.is_held)(object)
    }

    fn status_resets(&self) -> &'static [&'static [&'static str]] {
        self.0.status_resets
    }
}
