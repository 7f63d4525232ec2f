//! `RequestBody`: decodes the body of a POST or PUT to an object of the expected kind, and checks its name and namespace.
//!
//! Corresponds to the decoding part of k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go.

use super::{Call, numeric_annotations};
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

/// The body of a POST or PUT and its options, not decoded yet. Errors are reported in Kubernetes' order: the media type
/// before the size, the size before the options.
#[derive(Debug)]
pub struct RequestBody {
    format: Format,
    bytes: Bytes,
    pub options: WriteOptions,
}

/// The expected kind of a body: that of the URL's resource, or that of an action, such as an Eviction or a TokenRequest.
#[derive(Clone, Debug)]
pub struct ExpectedKind {
    pub gvk: Gvk,
    pub schema: TypeRef,
    /// An older version with the same fields, which is accepted as well.
    pub older_version: Option<&'static str>,
}

impl ExpectedKind {
    /// Returns a built-in kind; `name` is the name of its OpenAPI definition.
    pub fn builtin(group: &str, version: &str, kind: &str, name: &str) -> Self {
        Self { gvk: Gvk::new(group, version, kind), schema: builtin_type(name), older_version: None }
    }
}

impl RequestBody {
    /// Reads the body; `options` is `CreateOptions` or `UpdateOptions`.
    pub async fn read(call: &Call<'_>, schema: &TypeRef, options: &str, body: Body) -> Result<Self, Status> {
        let format = media::format_of_body(call.headers(), schema.is_builtin())?;
        let bytes = read(body).await?;
        Ok(Self { format, bytes, options: WriteOptions::read(&call.info.query, options, false)? })
    }

    /// Decodes the body as an object of the URL's resource, and sets its defaults.
    pub fn object(&self, call: &Call<'_>, target: &Target) -> Result<Value, Status> {
        let served = target.served();
        let kind = ExpectedKind { gvk: served.gvk(), schema: served.schema.clone(), older_version: None };
        let mut object = self.decode(call, &kind)?;
        set_defaults(served, &mut object);
        Ok(object)
    }

    /// Decodes the body as an object of the expected kind. Unknown and duplicate fields are handled as `fieldValidation`
    /// says.
    pub fn decode(&self, call: &Call<'_>, expected: &ExpectedKind) -> Result<Value, Status> {
        let ExpectedKind { gvk, schema, older_version } = expected;
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
            given_kind(gvk, api_version, kind)
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
        numeric_annotations::check(gvk, &decoded.value).map_err(|why| cannot_handle(gvk, why))?;
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

/// Returns the kind that the body gives. The expected kind replaces what the body leaves out.
fn given_kind(expected: &Gvk, api_version: &str, kind: &str) -> Gvk {
    let (group, version) = split_api_version(api_version);
    let kind = if kind.is_empty() { &expected.kind } else { kind };
    if api_version.is_empty() {
        return Gvk::new(expected.group.as_str(), expected.version.as_str(), kind);
    }
    Gvk::new(group, version, kind)
}

/// Returns the error for a body of another kind where a custom resource is expected. As Kubernetes has one decoder for all
/// custom resources, it checks their kind separately.
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

/// Returns the error for a body of another kind where a built-in kind is expected.
fn wrong_kind(call: &Call<'_>, expected: &Gvk, given: &Gvk) -> Status {
    let catalogue = call.server.registry.catalogue.load();
    let Some(known) = catalogue.by_gvk(given) else {
        let why = format!(
            "no kind \"{}\" is registered for version \"{}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            given.kind,
            given.api_version()
        );
        return cannot_handle_as(given, expected, why);
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
    cannot_handle_as(given, expected, why)
}

fn cannot_handle_as(given: &Gvk, expected: &Gvk, why: String) -> Status {
    Status::bad_request(format!(
        "{} in version \"{}\" cannot be handled as a {}: {why}",
        given.kind, given.version, expected.kind
    ))
}

/// Returns the Go package of a group's internal types, which messages name.
pub fn internal_package(group: &str) -> &str {
    match group {
        "" | "events.k8s.io" => "core",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// Sets the object's namespace to the request's. An object of another namespace is an error.
pub fn set_namespace(call: &Call<'_>, target: &Target, object: &mut Value) -> Result<(), Status> {
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

/// Checks that a body that replaces an object has the name and namespace of the URL.
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
