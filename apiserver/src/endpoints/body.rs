//! From a request's body to an object of the expected kind: media type, syntax, kind, strictness, defaults, name.
//!
//! Corresponds to the decoding part of k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go.

use super::Call;
use crate::media;
use crate::registry::{object_meta, set_defaults};
use crate::request::options::FieldValidation;
use proto::Status;
use proto::gvk::{Gvk, split_api_version};
use proto::resources::Target;
use proto::schema::decode::{cannot_handle, strict_error, strict_warnings};
use proto::schema::{TypeRef, decode_document};
use proto::wire::document::{Document, summary};
use serde_json::{Value, json};

/// An object as its writer meant it.
#[derive(Debug)]
pub struct Read {
    pub object: Value,
    /// What a lenient reader tells about.
    pub warnings: Vec<String>,
}

/// The object of a POST or PUT, of the target's kind, with defaults.
pub fn object(call: &Call<'_>, target: &Target, bytes: &[u8], validation: FieldValidation) -> Result<Read, Status> {
    let served = target.served();
    let mut read = of_kind(call, &served.gvk(), &served.schema, bytes, validation)?;
    set_defaults(served, &mut read.object);
    Ok(read)
}

/// A body of any kind: an Eviction, a TokenRequest, an object.
pub fn of_kind(
    call: &Call<'_>,
    expected: &Gvk,
    schema: &TypeRef,
    bytes: &[u8],
    validation: FieldValidation,
) -> Result<Read, Status> {
    let format = media::format_of_body(call.headers(), schema.is_builtin())?;
    let unrecognized = |why: String| {
        let kind = &expected.kind;
        Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): {why} ({})",
            summary(bytes)
        ))
    };
    let document = Document::parse(format, bytes).map_err(unrecognized)?;
    let given = {
        let (api_version, kind) = document.type_meta().map_err(unrecognized)?;
        named(expected, api_version, kind)
    };
    if given != *expected {
        return Err(wrong_kind(call, expected, &given));
    }
    let decoded = decode_document(schema, document).map_err(|error| error.to_status(expected))?;
    let mut object = decoded.value;
    object["apiVersion"] = json!(expected.api_version());
    object["kind"] = json!(expected.kind);
    let warnings = match validation {
        FieldValidation::Ignore => Vec::new(),
        FieldValidation::Warn => strict_warnings(&decoded.strict_errors),
        FieldValidation::Strict if decoded.strict_errors.is_empty() => Vec::new(),
        FieldValidation::Strict => return Err(cannot_handle(expected, strict_error(&decoded.strict_errors))),
    };
    Ok(Read { object, warnings })
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
        given.kind,
        given.api_version(),
        expected.kind
    ))
}

/// The Go package of a group's internal types.
fn internal_package(group: &str) -> &str {
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
    if given == "default" && wanted.is_empty() {
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
