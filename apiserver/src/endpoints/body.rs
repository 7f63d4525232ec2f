//! From a request's body to an object of the expected kind: media type, syntax, kind, strictness, defaults, name.
//!
//! Corresponds to the decoding part of k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go.

use super::{Call, old_numbers};
use crate::media;
use axum::body::Body;
use bytes::Bytes;
use patch::defaults::set_defaults;
use proto::Status;
use proto::gvk::{Gvk, split_api_version};
use proto::meta::status::FieldError;
use proto::resources::Target;
use proto::schema::decode::{cannot_handle, strict_error, strict_warnings};
use proto::schema::{TypeRef, builtin_type, decode_document};
use proto::wire::document::{Document, Format, summary};
use request::body::read;
use request::options::{FieldValidation, WriteOptions};
use serde_json::{Value, json};
use strategy::object_meta;

/// A body of POST or PUT with its options, not decoded yet. What is wrong is told in Kubernetes' order: the media type
/// before the size, the size before the options.
#[derive(Debug)]
pub struct Given {
    format: Format,
    bytes: Bytes,
    pub options: WriteOptions,
}

/// The kind of a body that is not the object of the URL: an Eviction, a Scale, a TokenRequest.
#[derive(Clone, Debug)]
pub struct Kind {
    pub gvk: Gvk,
    pub schema: TypeRef,
    /// Of the same shape, and taken for the same.
    pub older_version: Option<&'static str>,
}

impl Kind {
    /// `name` is that of the type's definition.
    pub fn builtin(group: &str, version: &str, kind: &str, name: &str) -> Self {
        Self { gvk: Gvk::new(group, version, kind), schema: builtin_type(name), older_version: None }
    }
}

impl Given {
    /// `options` is `CreateOptions` or `UpdateOptions`.
    pub async fn read(call: &Call<'_>, schema: &TypeRef, options: &str, body: Body) -> Result<Self, Status> {
        let format = media::format_of_body(call.headers(), schema.is_builtin())?;
        let bytes = read(body).await?;
        Ok(Self { format, bytes, options: WriteOptions::read(&call.info.query, options, false)? })
    }

    /// The object of the URL's kind, with defaults.
    pub fn object(&self, call: &Call<'_>, target: &Target) -> Result<Value, Status> {
        let served = target.served();
        let kind = Kind { gvk: served.gvk(), schema: served.schema.clone(), older_version: None };
        let mut object = self.of_kind(call, &kind)?;
        set_defaults(served, &mut object);
        Ok(object)
    }

    /// A body of any kind. The client is told what a lenient reader passes over.
    pub fn of_kind(&self, call: &Call<'_>, expected: &Kind) -> Result<Value, Status> {
        let Kind { gvk, schema, older_version } = expected;
        let unrecognized = |why: String| {
            let kind = &gvk.kind;
            let shown = summary(&self.bytes);
            Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({shown})"
            ))
        };
        let document = Document::parse(self.format, &self.bytes).map_err(unrecognized)?;
        let given = {
            let (api_version, kind) = document.type_meta().map_err(unrecognized)?;
            named(gvk, api_version, kind)
        };
        let is_older =
            older_version.is_some_and(|v| (&given.group, &given.kind, v) == (&gvk.group, &gvk.kind, &given.version));
        if given != *gvk && !is_older {
            if !schema.is_builtin() {
                return Err(wrong_custom_kind(&document.value, gvk, &given));
            }
            return Err(wrong_kind(call, gvk, &given));
        }
        let decoded = decode_document(schema, document).map_err(|error| error.to_status(gvk))?;
        old_numbers::check(gvk, &decoded.value).map_err(|why| cannot_handle(gvk, why))?;
        match self.options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => call.record.warn(strict_warnings(&decoded.strict_errors)),
            FieldValidation::Strict if decoded.strict_errors.is_empty() => {}
            FieldValidation::Strict => return Err(cannot_handle(gvk, strict_error(&decoded.strict_errors))),
        }
        let mut object = decoded.value;
        object["apiVersion"] = json!(gvk.api_version());
        object["kind"] = json!(gvk.kind);
        Ok(object)
    }
}

/// What a body says it is; what it leaves out, the URL says.
fn named(expected: &Gvk, api_version: &str, kind: &str) -> Gvk {
    let (group, version) = split_api_version(api_version);
    let kind = if kind.is_empty() { &expected.kind } else { kind };
    if api_version.is_empty() {
        return Gvk::new(expected.group.as_str(), expected.version.as_str(), kind);
    }
    Gvk::new(group, version, kind)
}

/// Custom resources have one decoder for all kinds: their own check of the kind comes later.
fn wrong_custom_kind(body: &Value, expected: &Gvk, given: &Gvk) -> Status {
    if (&given.group, &given.version) != (&expected.group, &expected.version) {
        return Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            given.api_version(),
            expected.api_version()
        ));
    }
    let error = FieldError::invalid("kind", &json!(given.kind), format!("must be {}", expected.kind));
    Status::invalid(&given.group, &given.kind, object_meta::text(body, "name"), &[error])
}

fn wrong_kind(call: &Call<'_>, expected: &Gvk, given: &Gvk) -> Status {
    let catalogue = call.server.registry.catalogue.load();
    let Some(known) = catalogue.by_gvk(given) else {
        let why = format!(
            "no kind \"{}\" is registered for version \"{}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            given.kind,
            given.api_version()
        );
        return handled_as(given, expected, why);
    };
    let is_same_row = catalogue.by_gvk(expected).is_some_and(|e| std::sync::Arc::ptr_eq(&e.row, &known.row));
    if is_same_row {
        return Status::bad_request(format!(
            "the API version in the data ({}) does not match the expected API version ({})",
            given.api_version(),
            expected.api_version()
        ));
    }
    let why = format!(
        "converting ({}.{}) to ({}.{}): unknown conversion",
        given.version,
        given.kind,
        internal_package(&expected.group),
        expected.kind
    );
    handled_as(given, expected, why)
}

fn handled_as(given: &Gvk, expected: &Gvk, why: String) -> Status {
    Status::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        given.kind, given.version, expected.kind
    ))
}

/// The Go package of a group's internal types.
pub fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// The namespace of a new object is the request's; saying another is an error.
pub fn place(call: &Call<'_>, target: &Target, object: &mut Value) -> Result<(), Status> {
    let wanted = call.namespace(target);
    let given = object_meta::text(object, "namespace").to_owned();
    if given == wanted {
        return Ok(());
    }
    let meta = object_meta::meta_mut(object);
    if given.is_empty() {
        meta.insert("namespace".into(), json!(wanted));
        return Ok(());
    }
    let is_custom = !target.served().schema.is_builtin();
    if wanted.is_empty() && (given == "default" || is_custom) {
        meta.remove("namespace");
        return Ok(());
    }
    Err(Status::bad_request("the namespace of the provided object does not match the namespace sent on the request"))
}

/// A body that replaces an object names it as the URL does.
pub fn check_name(call: &Call<'_>, target: &Target, object: &Value) -> Result<(), Status> {
    let (name, namespace) = (object_meta::text(object, "name"), object_meta::text(object, "namespace"));
    let wanted = call.info.name.as_str();
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != wanted {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({wanted})"
        )));
    }
    let of_request = call.namespace(target);
    if !namespace.is_empty() && !of_request.is_empty() && namespace != of_request {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(Status::bad_request(why));
    }
    Ok(())
}
