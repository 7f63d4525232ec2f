//! PATCH in its four forms: JSON Patch, merge patch, strategic merge patch and server-side apply.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/patch.go.

use super::{Call, body, numeric_annotations, present};
use crate::media;
use axum::body::Body;
use http::Response;
use parking_lot::Mutex;
use patch::apply::conversions::Conversions;
use patch::apply::fields::FieldSet;
use patch::apply::ownership::shown_in_go;
use patch::apply::{FieldManager, without_managed_fields};
use patch::json_patch::go_json_kind;
use patch::{json_patch, merge, strategic};
use proto::meta::status::FieldError;
use proto::resources::Target;
use proto::schema::decode;
use proto::schema::decode::{strict_error, strict_warnings};
use proto::wire::document::{Document, Format, TOO_DEEP};
use proto::wire::json_syntax;
use proto::{Status, wire};
use registry::mutation::{Change, Changed};
use registry::reset_fields;
use request::body::read;
use request::options::{FieldValidation, WriteOptions};
use serde_json::{Value, json};

/// The type of a patch, as its media type names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

const MEDIA_TYPES: &[(&str, PatchType)] = &[
    ("application/json-patch+json", PatchType::Json),
    ("application/merge-patch+json", PatchType::Merge),
    ("application/strategic-merge-patch+json", PatchType::Strategic),
    ("application/apply-patch+yaml", PatchType::Apply),
];

/// Returns the type of this request's patch, or 415: the router's if the media type is no patch, the handler's if this
/// resource does not support the type.
pub fn type_of(call: &Call<'_>, target: &Target) -> Result<PatchType, Status> {
    let media_type = media::content_type(call.headers());
    let found = MEDIA_TYPES.iter().find(|(name, _)| *name == media_type);
    let (_, patch_type) = found.ok_or_else(media::route_refusal_of_body)?;
    // Custom resources have no merge keys.
    if *patch_type == PatchType::Strategic && !target.served().schema.is_builtin() {
        let accepted = MEDIA_TYPES.iter().filter(|(_, patch_type)| *patch_type != PatchType::Strategic);
        return Err(Status::unsupported_media_type(&accepted.map(|(name, _)| *name).collect::<Vec<_>>()));
    }
    Ok(*patch_type)
}

pub async fn answer(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let patch_type = type_of(call, target)?;
    let form = call.form()?;
    let bytes = read(body).await?;
    let options = WriteOptions::read(&call.info.query, "PatchOptions", patch_type == PatchType::Apply)?;
    let (patch, patch_errors) = parse(patch_type, &bytes)?;
    let manager = call.manager(&options.field_manager);
    let mut mutation = call.mutation(target, &manager, options.dry_run, &options.given);
    let reset = reset_fields(&mutation);
    let change = Patch {
        call,
        target,
        patch_type,
        patch,
        patch_errors,
        manager: &manager,
        force: options.force == Some(true),
        validation: options.field_validation,
        reset,
        warnings: Mutex::default(),
    };
    let outcome = call.update(&mut mutation, &change).await;
    call.record.warn(change.warnings.into_inner());
    let written = outcome?;
    present::object(call, target, &form, written.code(), &written.object)
}

/// Parses a patch. Returns its value and the errors of its text, such as duplicate fields, for field validation.
pub fn parse(patch_type: PatchType, bytes: &[u8]) -> Result<(Value, Vec<String>), Status> {
    if patch_type == PatchType::Apply {
        let document = Document::parse(Format::Yaml, bytes)
            .map_err(|why| Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {why}")))?;
        if !document.value.is_object() && !document.value.is_null() {
            let kind = go_json_kind(&document.value);
            return Err(Status::bad_request(format!(
                "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into \
                 Go value of type map[string]interface {{}}"
            )));
        }
        return Ok((document.value, document.duplicates));
    }
    match wire::json::parse(bytes) {
        Ok(parsed) => {
            let duplicates = parsed.duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
            Ok((parsed.value, duplicates))
        }
        Err(error) => {
            let is_too_deep = error.to_string().starts_with("recursion limit");
            let other = || if is_too_deep { TOO_DEEP.to_owned() } else { error.to_string() };
            let why = json_syntax::syntax_error(bytes).unwrap_or_else(other);
            let preamble = if patch_type == PatchType::Strategic { "" } else { "error decoding patch: " };
            Err(Status::bad_request(format!("{preamble}{why}")))
        }
    }
}

/// The change of one PATCH: a pure function of the current object.
struct Patch<'a> {
    call: &'a Call<'a>,
    target: &'a Target,
    patch_type: PatchType,
    patch: Value,
    patch_errors: Vec<String>,
    manager: &'a str,
    force: bool,
    validation: FieldValidation,
    reset: FieldSet,
    /// Warnings of the last attempt.
    warnings: Mutex<Vec<String>>,
}

impl Change for Patch<'_> {
    fn change(&self, current: Option<&Value>, conversions: &Conversions) -> registry::Result<Changed> {
        let mut object = match self.decode_object(self.patch_object(current, conversions)?) {
            Ok(object) => object,
            Err(why) => {
                let shown = match self.patch_type {
                    // Kubernetes has no JSON of the result here: the message shows the patch as Go prints it.
                    PatchType::Strategic => shown_in_go(&self.patch),
                    _ => self.patch_object(current, conversions)?.to_string(),
                };
                return Err(Status::invalid("", "", "", &[FieldError::invalid("patch", &json!(shown), why)]).into());
            }
        };
        body::check_name(self.call, self.target, &object)?;
        body::set_namespace(self.call, self.target, &mut object)?;
        Ok(Changed { object, managed: self.patch_type == PatchType::Apply })
    }

    fn creates(&self) -> bool {
        self.patch_type == PatchType::Apply
    }
}

impl Patch<'_> {
    /// Applies the patch to the current object. The result is not decoded yet.
    fn patch_object(&self, current: Option<&Value>, conversions: &Conversions) -> Result<Value, Status> {
        let served = self.target.served();
        let mut patched = match (self.patch_type, current) {
            (PatchType::Apply, current) => self.server_side_apply(current, conversions)?,
            (PatchType::Json, Some(current)) => json_patch::apply(current, &self.patch)?,
            (PatchType::Merge, Some(current)) => merge::apply(current, &self.patch)?,
            (PatchType::Strategic, Some(current)) => {
                strategic::apply_to(served.schema.schema(), self.copied(current), &self.patch)?
            }
            (_, None) => return Err(Status::not_found(&served.group, &served.resource, &self.call.info.name)),
        };
        // A patch may remove these: the request's resource names them anyway.
        for (key, known) in [("kind", served.kind.to_string()), ("apiVersion", served.api_version())] {
            if patched.is_object() && patched.get(key).is_none_or(Value::is_null) {
                patched[key] = json!(known);
            }
        }
        Ok(patched)
    }

    /// Copies the current object for a patch to change. Only a request for the object itself may change the record of managers,
    /// so a patch of a subresource does not need it.
    fn copied(&self, current: &Value) -> Value {
        if self.call.info.subresource.is_empty() { current.clone() } else { without_managed_fields(current) }
    }

    fn server_side_apply(&self, current: Option<&Value>, conversions: &Conversions) -> Result<Value, Status> {
        let subresource = &self.call.info.subresource;
        let now = self.call.server.env.wall();
        let fields = FieldManager::new(&self.target.row, self.target.served(), subresource, &self.reset, now);
        let fields = fields.with_conversions(conversions);
        fields.apply(current, &self.patch, self.manager, self.force)
    }

    /// Decodes the result of a patch as an object of the resource's kind, or returns why it is none.
    fn decode_object(&self, patched: Value) -> Result<Value, String> {
        let served = self.target.served();
        if !patched.is_object() {
            let text = patched.to_string();
            Document::parse(Format::Json, text.as_bytes())?.type_meta()?;
        }
        let text = |key: &str| patched.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        if text("kind") != served.kind || text("apiVersion") != served.api_version() {
            let (kind, version) = (text("kind"), text("apiVersion"));
            return Err(format!("no kind \"{kind}\" is registered for version \"{version}\""));
        }
        let decode = if self.patch_type == PatchType::Strategic { decode::convert } else { decode::decode };
        let decoded = decode(&served.schema, patched).map_err(|error| error.to_string())?;
        numeric_annotations::check(&served.gvk(), &decoded.value)?;
        let strict: Vec<String> = self.patch_errors.iter().cloned().chain(decoded.strict_errors).collect();
        let mut warnings = self.warnings.lock();
        warnings.clear();
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.extend(strict_warnings(&strict)),
            FieldValidation::Strict if strict.is_empty() => {}
            FieldValidation::Strict => return Err(strict_error(&strict)),
        }
        let mut object = decoded.value;
        object["apiVersion"] = json!(served.api_version());
        object["kind"] = json!(served.kind);
        Ok(object)
    }
}
