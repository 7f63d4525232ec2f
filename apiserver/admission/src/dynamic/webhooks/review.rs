//! `AdmissionReview`: the request to a webhook, and its response.
//!
//! Pure. Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook/request and /errors.

use crate::Attributes;
use crate::dynamic::admission_request::request;
use crate::dynamic::versioned_attributes::VersionedAttributes;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use patch::json_patch::go_json_kind;
use proto::Status;
use proto::wire::json_syntax::syntax_error;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";
/// The AdmissionReview versions that this server supports.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];
const JSON_PATCH: &str = "JSONPatch";

/// Returns the first of a webhook's `admissionReviewVersions` that this server supports.
pub fn version_of(versions: &Value) -> Option<&'static str> {
    let mut wanted = versions.as_array().into_iter().flatten().filter_map(Value::as_str);
    wanted.find_map(|wanted| VERSIONS.into_iter().find(|known| *known == wanted))
}

/// One AdmissionReview request.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    pub version: &'a str,
    pub uid: &'a str,
    pub attributes: &'a Attributes<'a>,
    pub seen: &'a VersionedAttributes<'a>,
}

impl Question<'_> {
    pub fn to_value(self) -> Value {
        let Self { version, uid, attributes, seen } = self;
        let served = &attributes.versions.all()[seen.place];
        let mut request = request(attributes, served);
        request["uid"] = json!(uid);
        request["object"] = json!(seen.object);
        request["oldObject"] = json!(seen.old_object);
        json!({"apiVersion": format!("{GROUP}/{version}"), "kind": KIND, "request": request})
    }
}

/// The response of a webhook.
#[derive(Debug, Default, PartialEq)]
pub struct Response {
    pub allowed: bool,
    /// The status of a rejection.
    pub result: Option<Status>,
    /// The decoded patch; empty without one.
    pub patch: Vec<u8>,
    pub patch_type: String,
    pub annotations: BTreeMap<String, String>,
    pub warnings: Vec<String>,
}

/// Why a response is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InvalidResponse {
    /// It cannot be decoded.
    Form(String),
    /// It is decoded, and its content is invalid.
    Content(String),
}

fn read<T: serde::de::DeserializeOwned + Default>(
    response: &Value,
    field: &str,
    go_type: &str,
) -> Result<T, InvalidResponse> {
    let value = &response[field];
    if value.is_null() {
        return Ok(T::default());
    }
    serde_json::from_value(value.clone()).map_err(|_| {
        let kind = go_json_kind(value);
        let place = format!("AdmissionResponse.response.{field}");
        InvalidResponse::Form(format!("json: cannot unmarshal {kind} into Go struct field {place} of type {go_type}"))
    })
}

/// Parses the response to the request with this uid and version.
pub fn parse_response(version: &str, uid: &str, mutating: bool, review: &Value) -> Result<Response, InvalidResponse> {
    let response = &review["response"];
    let content = |why: String| Err(InvalidResponse::Content(why));
    if response.is_null() {
        return content("webhook response was absent".to_owned());
    }
    if !response.is_object() {
        let kind = go_json_kind(response);
        let what = "Go struct field AdmissionReview.response of type v1.AdmissionResponse";
        return Err(InvalidResponse::Form(format!("json: cannot unmarshal {kind} into {what}")));
    }
    let patch: String = read(response, "patch", "[]uint8")?;
    let patch =
        BASE64.decode(&patch).map_err(|_| InvalidResponse::Form("illegal base64 data in response.patch".to_owned()))?;
    let patch_type: Option<String> = read(response, "patchType", "v1.PatchType")?;
    let got: String = read(response, "uid", "types.UID")?;
    let read = Response {
        allowed: read(response, "allowed", "bool")?,
        result: read(response, "status", "v1.Status")?,
        patch: if mutating { patch.clone() } else { Vec::new() },
        patch_type: patch_type.clone().unwrap_or_default(),
        annotations: read(response, "auditAnnotations", "map[string]string")?,
        warnings: read(response, "warnings", "[]string")?,
    };
    if version != "v1" {
        // v1beta1 does not require these checks.
        return Ok(Response { patch_type: JSON_PATCH.to_owned(), ..read });
    }
    if got != uid {
        return content(format!("expected response.uid={uid:?}, got {got:?}"));
    }
    let text = |key: &str| review[key].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != ("admission.k8s.io/v1", KIND) {
        let (group, version) = text("apiVersion").rsplit_once('/').unwrap_or(("", text("apiVersion")));
        let got = format!("{group}/{version}, Kind={}", text("kind"));
        return content(format!("expected webhook response of {GROUP}/v1, Kind={KIND}, got {got}"));
    }
    let why = match (mutating, patch.is_empty(), patch_type.as_deref()) {
        (false, false, _) => "validating webhook may not return response.patch",
        (false, true, Some(_)) => "validating webhook may not return response.patchType",
        (true, false, None) => "webhook returned response.patch but not response.patchType",
        (true, true, Some(_)) => "webhook returned response.patchType but not response.patch",
        (true, false, Some("")) => "webhook returned invalid response.patchType of \"\"",
        _ => return Ok(read),
    };
    content(why.to_owned())
}

/// Returns the error for the client: it names the webhook, and its code is never one of success.
pub fn denied(webhook: &str, result: Option<Status>) -> Status {
    let mut status = result.unwrap_or_default();
    status.code = status.code.max(400);
    if status.status.is_empty() || status.status == "Success" {
        status.status = "Failure".to_owned();
    }
    let by = format!("admission webhook {webhook:?} denied the request");
    status.message = match (status.message.as_str(), status.reason.as_str()) {
        ("", "") => format!("{by} without explanation"),
        ("", why) | (why, _) => format!("{by}: {why}"),
    };
    status
}

/// Parses the operations of a patch.
pub fn operations(response: &Response) -> Result<Value, String> {
    if response.patch.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&response.patch)
        .map_err(|error| syntax_error(&response.patch).unwrap_or_else(|| error.to_string()))
}

/// Tells whether `patchType` is `JSONPatch`, the only valid type.
pub fn is_json_patch(response: &Response) -> bool {
    response.patch_type == JSON_PATCH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn review(response: Value) -> Value {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
    }

    fn wrong(mutating: bool, review: &Value) -> String {
        match parse_response("v1", "u", mutating, review).unwrap_err() {
            InvalidResponse::Form(why) | InvalidResponse::Content(why) => why,
        }
    }

    #[test]
    fn answers_that_lie_are_told_by_what_is_wrong() {
        let patch = BASE64.encode("[]");
        for (mutating, review, why) in [
            (true, json!({}), "webhook response was absent"),
            (true, review(json!({"uid": "v", "allowed": true})), "expected response.uid=\"u\", got \"v\""),
            (
                true,
                json!({"response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                true,
                json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": {"uid": "u"}}),
                "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got \
                 admission.k8s.io/v1beta1, Kind=AdmissionReview",
            ),
            (
                true,
                review(json!({"uid": "u", "patch": patch})),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                true,
                review(json!({"uid": "u", "patchType": "JSONPatch"})),
                "webhook returned response.patchType but not response.patch",
            ),
            (
                true,
                review(json!({"uid": "u", "patch": patch, "patchType": ""})),
                "webhook returned invalid response.patchType of \"\"",
            ),
            (false, review(json!({"uid": "u", "patch": patch})), "validating webhook may not return response.patch"),
            (
                false,
                review(json!({"uid": "u", "patchType": "JSONPatch"})),
                "validating webhook may not return response.patchType",
            ),
            (
                true,
                review(json!({"uid": "u", "allowed": "yes"})),
                "json: cannot unmarshal string into Go struct field AdmissionResponse.response.allowed of type bool",
            ),
        ] {
            assert_eq!(wrong(mutating, &review), why);
        }
    }

    #[test]
    fn the_old_form_is_not_asked_for_what_it_never_gave() {
        let answer = json!({"response": {"allowed": true, "patch": BASE64.encode("[]")}});
        let read = parse_response("v1beta1", "u", true, &answer).unwrap();
        assert!(read.allowed && is_json_patch(&read));
        assert_eq!(operations(&read), Ok(json!([])));
        assert_eq!(version_of(&json!(["v2", "v1beta1", "v1"])), Some("v1beta1"));
        assert_eq!(version_of(&json!(["v2"])), None);
    }

    #[test]
    fn a_refusal_says_whose_it_is_and_why() {
        let status = |value: Value| Some(serde_json::from_value::<Status>(value).unwrap());
        for (result, code, reason, why) in [
            (None, 400, "", " without explanation"),
            (status(json!({"message": "no"})), 400, "", ": no"),
            (status(json!({"reason": "Forbidden", "code": 403})), 403, "Forbidden", ": Forbidden"),
            (status(json!({"status": "Success", "code": 200, "reason": "Odd", "message": "no"})), 400, "Odd", ": no"),
        ] {
            let denied = denied("a.b.c", result);
            assert_eq!((denied.code, denied.reason.as_str(), denied.status.as_str()), (code, reason, "Failure"));
            assert_eq!(denied.message, format!("admission webhook \"a.b.c\" denied the request{why}"));
        }
    }
}
