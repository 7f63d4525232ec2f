//! `Status`: the one error type of the API, with a constructor for every reason.
//!
//! Corresponds to k8s.io/apimachinery/pkg/api/errors and pkg/util/validation/field.

use crate::go_text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fmt;

/// An error of one field, worded as Kubernetes' `field.Error`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// `spec.containers[0].ports[1].containerPort`
    pub field: String,
    /// `FieldValueInvalid`, `FieldValueRequired`, …
    pub reason: &'static str,
    /// `Invalid value: "x": must be …`
    pub message: String,
}

/// Shows a value as field errors do: a string as Go quotes it, everything else as JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => go_text::quoted(text),
        other => go_text::html_escaped(&other.to_string()),
    }
}

impl FieldError {
    fn new(field: impl Into<String>, reason: &'static str, message: String) -> Self {
        Self { field: field.into(), reason, message }
    }

    pub fn invalid(field: impl Into<String>, value: &Value, detail: impl fmt::Display) -> Self {
        Self::new(field, "FieldValueInvalid", format!("Invalid value: {}: {detail}", shown(value)))
    }

    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        let colon = if detail.is_empty() { "" } else { ": " };
        Self::new(field, "FieldValueRequired", format!("Required value{colon}{detail}"))
    }

    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, "FieldValueDuplicate", format!("Duplicate value: {}", shown(value)))
    }

    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::new(field, "FieldValueNotFound", format!("Not found: {}", shown(value)))
    }

    pub fn not_supported(field: impl Into<String>, value: &Value, supported: &[&str]) -> Self {
        let list = supported.iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(", ");
        let detail = if supported.is_empty() { String::new() } else { format!(": supported values: {list}") };
        Self::new(field, "FieldValueNotSupported", format!("Unsupported value: {}{detail}", shown(value)))
    }

    pub fn forbidden(field: impl Into<String>, detail: impl fmt::Display) -> Self {
        Self::new(field, "FieldValueForbidden", format!("Forbidden: {detail}"))
    }

    pub fn too_long(field: impl Into<String>, max_bytes: usize) -> Self {
        Self::new(field, "FieldValueTooLong", format!("Too long: may not be more than {max_bytes} bytes"))
    }

    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        Self::new(field, "FieldValueTooMany", format!("Too many: {actual}: must have at most {max} items"))
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cause {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
}

/// metav1.Status. An error carries `status: Failure`, an HTTP code and a reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(default)]
#[error("{message}")]
pub struct Status {
    /// `Success` or `Failure`.
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Details>>,
    #[serde(skip_serializing_if = "is_zero")]
    pub code: u16,
    /// `metadata.continue`: a new token for a list whose own has expired.
    #[serde(skip)]
    pub continue_token: String,
}

fn is_zero(code: &u16) -> bool {
    *code == 0
}

/// Returns `deployments.apps` or `pods`.
fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

impl Status {
    /// Builds an error of any code and reason.
    pub fn failure(code: u16, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status: "Failure".into(),
            message: message.into(),
            reason: reason.into(),
            details: None,
            code,
            ..Self::default()
        }
    }

    /// Builds the success that answers a delete when the object is gone at once.
    pub fn deleted(group: &str, resource: &str, name: &str, uid: &str) -> Self {
        Self { status: "Success".into(), ..Self::default() }.with_details(group, resource, name, uid)
    }

    pub fn with_details(mut self, group: &str, kind: &str, name: &str, uid: &str) -> Self {
        let details = self.details.get_or_insert_default();
        details.group = group.into();
        details.kind = kind.into();
        details.name = name.into();
        details.uid = uid.into();
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::failure(400, "BadRequest", message)
    }

    pub fn unauthorized() -> Self {
        Self::failure(401, "Unauthorized", "Unauthorized")
    }

    /// `pods "web" is forbidden: <why>`
    pub fn forbidden(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = match (resource.is_empty(), name.is_empty()) {
            (true, _) => format!("forbidden: {why}"),
            (false, true) => format!("{} is forbidden: {why}", qualified(group, resource)),
            (false, false) => format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource)),
        };
        Self::failure(403, "Forbidden", message).with_details(group, resource, name, "")
    }

    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        Self::failure(404, "NotFound", format!("{} \"{name}\" not found", qualified(group, resource)))
            .with_details(group, resource, name, "")
    }

    /// 404 for a path or resource that this server does not serve.
    pub fn unknown_path() -> Self {
        let mut status = Self::failure(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Box::default());
        status
    }

    pub fn method_not_allowed(group: &str, resource: &str, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{}\"", qualified(group, resource));
        Self::failure(405, "MethodNotAllowed", message).with_details(group, resource, "", "")
    }

    /// 406: the server has none of the accepted media types.
    pub fn not_acceptable(served: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", served.join(", "));
        Self::failure(406, "NotAcceptable", message)
    }

    /// 415: the server cannot read the body's media type.
    pub fn unsupported_media_type(accepted: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            accepted.join(", ")
        );
        Self::failure(415, "UnsupportedMediaType", message)
    }

    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        Self::failure(409, "AlreadyExists", format!("{} \"{name}\" already exists", qualified(group, resource)))
            .with_details(group, resource, name, "")
    }

    /// `Operation cannot be fulfilled on pods "web": <why>`
    pub fn conflict(group: &str, resource: &str, name: &str, why: impl fmt::Display) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(group, resource));
        Self::failure(409, "Conflict", message).with_details(group, resource, name, "")
    }

    /// 409 for an optimistic write of an outdated version.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// 422 with all field errors: `Deployment.apps "web" is invalid: …`
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        // The message lists equal errors once; the causes keep them all.
        let mut listed: Vec<String> = Vec::new();
        for error in errors.iter().map(ToString::to_string) {
            if !listed.contains(&error) {
                listed.push(error);
            }
        }
        let listed = match listed.as_slice() {
            [] => "<nil>".to_owned(),
            [one] => one.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let mut status =
            Self::failure(422, "Invalid", format!("{} \"{name}\" is invalid: {listed}", qualified(group, kind)))
                .with_details(group, kind, name, "");
        if let Some(details) = status.details.as_mut() {
            details.causes = errors
                .iter()
                .map(|e| Cause { reason: e.reason.into(), message: e.message.clone(), field: e.field.clone() })
                .collect();
        }
        status
    }

    pub fn gone(message: impl Into<String>) -> Self {
        Self::failure(410, "Gone", message)
    }

    /// 410 `Expired`: the server no longer keeps the requested revision.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::failure(410, "Expired", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::failure(413, "RequestEntityTooLarge", message)
    }

    pub fn too_many_requests(message: impl Into<String>, retry_after_s: u32) -> Self {
        let mut status = Self::failure(429, "TooManyRequests", message);
        status.details.get_or_insert_default().retry_after_seconds = Some(retry_after_s);
        status
    }

    pub fn internal(why: impl fmt::Display) -> Self {
        let mut status = Self::failure(500, "InternalError", format!("Internal error occurred: {why}"));
        status.details.get_or_insert_default().causes = vec![Cause { message: why.to_string(), ..Cause::default() }];
        status
    }

    /// 501 for a feature that the model lacks; the message names it.
    pub fn not_implemented(what: impl fmt::Display) -> Self {
        Self::failure(501, "NotImplemented", what.to_string())
    }

    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::failure(503, "ServiceUnavailable", why)
    }

    /// 504: the server's own deadline has passed.
    pub fn timeout(message: impl Into<String>, retry_after_s: u32) -> Self {
        let mut status = Self::failure(504, "Timeout", message);
        status.details.get_or_insert_default().retry_after_seconds = Some(retry_after_s);
        status
    }

    /// 504 in the words of a server that gives up a request.
    pub fn timed_out() -> Self {
        Self::timeout("Timeout: request did not complete within the allotted timeout", 0)
    }

    pub fn is_success(&self) -> bool {
        self.status == "Success"
    }

    /// Returns the wire form, with `kind`, `apiVersion` and the empty `metadata` that Kubernetes sends.
    pub fn to_value(&self) -> Value {
        let mut value = serde_json::to_value(self).expect("a Status is plain data");
        value["kind"] = json!("Status");
        value["apiVersion"] = json!("v1");
        value["metadata"] = json!({});
        value
    }
}
