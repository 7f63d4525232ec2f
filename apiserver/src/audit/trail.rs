//! `Trail`: the audit events of one request, from its arrival to its answer.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/audit.go.
//!
//! Deviation: an event has the object of a request as the client sent it, without defaults.

use super::Audit;
use super::event::{Event, response_status, without_managed_fields};
use super::observed_body::{Copy, ObservedBody};
use super::policy::{Decision, Level, Stage};
use crate::media;
use axum::body::{Body, to_bytes};
use flate2::read::GzDecoder;
use http::request::Parts;
use http::{HeaderMap, Response, header};
use proto::Gvk;
use proto::gvk::split_api_version;
use proto::resources::Catalogue;
use proto::schema::{builtin_type, decode_document};
use proto::wire::document::{Document, Format};
use request::UserInfo;
use request::body::MAX_BODY_BYTES;
use request::info::RequestInfo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// The audit of one request.
pub struct Trail {
    audit: Arc<Audit>,
    decision: Decision,
    event: Event,
    format: Format,
    /// The part of the body that the server has read.
    request: Option<Copy>,
    /// Authentication failed. Only the answer is recorded.
    unauthenticated: bool,
    long_running: bool,
    panic: Option<String>,
}

impl Trail {
    /// Begins the audit of a request; `None` if the policy does not record it.
    pub fn begin(
        audit: &Arc<Audit>,
        audit_id: &str,
        parts: &Parts,
        info: &RequestInfo,
        user: Option<&UserInfo>,
    ) -> Option<Self> {
        let decision = audit.decide(info, user);
        if decision.level == Level::None {
            return None;
        }
        let is_yaml = parts.headers.get(header::CONTENT_TYPE).is_some_and(|media| media.as_bytes().ends_with(b"yaml"));
        let given = || media::format_of_body(&parts.headers, true).unwrap_or(Format::Json);
        Some(Self {
            event: Event::received(decision.level, audit_id, parts, info, user, audit.env.wall()),
            audit: audit.clone(),
            decision,
            format: if is_yaml { Format::Yaml } else { given() },
            request: None,
            unauthenticated: user.is_none(),
            long_running: info.is_long_running(),
            panic: None,
        })
    }

    /// Records the arrival. Returns false if the request must fail because the event could not be stored.
    pub async fn received(&self) -> bool {
        let stored = self.process(self.event.clone()).await;
        if !stored {
            self.audit.reject();
        }
        stored
    }

    /// Records the impersonated user, if the request acts as a user other than its sender.
    pub fn acts_as(&mut self, user: &UserInfo) {
        let user = user.to_value();
        if user != self.event.user {
            self.event.impersonated_user = Some(user);
        }
    }

    /// Copies the body of the request while the server reads it, if the level includes the object.
    pub fn copy_request(&mut self, body: Body) -> Body {
        if self.decision.level < Level::Request {
            return body;
        }
        let (body, copy) = ObservedBody::copied(body, MAX_BODY_BYTES);
        self.request = Some(copy);
        body
    }

    /// Notes that the handling of the request panicked.
    pub fn panicked(&mut self, why: &str) {
        self.panic = Some(why.to_owned());
    }

    /// Passes an event on, unless the policy omits its stage.
    async fn process(&self, event: Event) -> bool {
        self.decision.omit_stages.contains(&event.stage) || self.audit.process(event).await
    }

    /// Records the answer, and returns it.
    pub async fn answered(
        mut self,
        response: Response<Body>,
        annotations: BTreeMap<String, String>,
        created: Option<&str>,
    ) -> Response<Body> {
        self.event.annotations = annotations;
        if let (Some(reference), Some(name)) = (&mut self.event.object_ref, created) {
            reference.name_if_unknown(name);
        }
        self.add_request_object();
        let code = response.status().as_u16();
        if let Some(why) = &self.panic {
            let mut status = response_status(code, None);
            status["status"] = json!("Failure");
            status["message"] = json!(format!("APIServer panic'd: {why}"));
            status["reason"] = json!("InternalError");
            self.event.response_status = Some(status);
            self.process(self.event.at(Stage::Panic, self.audit.env.wall())).await;
            return response;
        }
        if self.long_running && code < 400 {
            return self.started(response).await;
        }
        let wants_body = self.decision.level == Level::RequestResponse || code >= 400;
        let (response, body) = if wants_body { read(response).await } else { (response, None) };
        self.event.response_status = Some(response_status(code, body.as_ref()));
        if self.decision.level == Level::RequestResponse {
            self.event.response_object = body.map(|body| self.without_omitted(body));
        }
        let stage = if self.unauthenticated { Stage::ResponseStarted } else { Stage::ResponseComplete };
        self.process(self.event.at(stage, self.audit.env.wall())).await;
        response
    }

    /// Records the start of a long-running answer, and its end when the body ends.
    async fn started(mut self, response: Response<Body>) -> Response<Body> {
        self.event.response_status = Some(response_status(response.status().as_u16(), None));
        self.process(self.event.at(Stage::ResponseStarted, self.audit.env.wall())).await;
        if self.decision.omit_stages.contains(&Stage::ResponseComplete) {
            return response;
        }
        let Self { audit, event, .. } = self;
        let end = move || audit.process_soon(event.at(Stage::ResponseComplete, audit.env.wall()));
        response.map(|body| ObservedBody::until_end(body, end))
    }

    /// Adds the object that the client sent, if it was copied and can be decoded.
    fn add_request_object(&mut self) {
        let Some(copy) = self.request.take() else { return };
        let bytes = std::mem::take(&mut *copy.lock());
        if bytes.is_empty() {
            return;
        }
        let Ok(document) = Document::parse(self.format, &bytes) else { return };
        let object = decoded(document);
        if let Some(reference) = self.event.object_ref.as_mut().filter(|_| object.get("metadata").is_some()) {
            reference.complete(&object);
        }
        self.event.request_object = Some(self.without_omitted(object));
    }

    /// Removes `managedFields` if the policy omits them.
    fn without_omitted(&self, object: Value) -> Value {
        if self.decision.omit_managed_fields { without_managed_fields(object) } else { object }
    }
}

/// Returns the object of a body. Protobuf is decoded by the type that it names; for an unknown type only the name of
/// the type is returned.
fn decoded(document: Document<'_>) -> Value {
    if document.format != Format::Protobuf {
        return document.value;
    }
    let named = document.value.clone();
    let text = |key: &str| named[key].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let gvk = Gvk::new(group, version, text("kind"));
    let schema = match Catalogue::complete().by_gvk(&gvk) {
        Some(target) => target.served().schema.clone(),
        // DeleteOptions are sent to every resource. The other kinds are those of subresources.
        None if gvk.kind == "DeleteOptions" => builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        None => {
            let package = group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
            builtin_type(&format!("io.k8s.api.{package}.{version}.{}", gvk.kind))
        }
    };
    let Ok(complete) = decode_document(&schema, document) else { return named };
    let mut value = complete.value;
    for key in ["apiVersion", "kind"] {
        value[key] = named[key].clone();
    }
    value
}

/// Reads the body of an answer. Returns the answer with it, and its value if it is JSON.
async fn read(response: Response<Body>) -> (Response<Body>, Option<Value>) {
    let (head, body) = response.into_parts();
    let bytes = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        // The client gets the error in place of the body.
        Err(error) => return (Response::from_parts(head, Body::new(error.to_string())), None),
    };
    let value = match is_gzip(&head.headers) {
        true => {
            let mut whole = Vec::new();
            GzDecoder::new(&bytes[..]).read_to_end(&mut whole).ok().and_then(|_| serde_json::from_slice(&whole).ok())
        }
        false => serde_json::from_slice(&bytes).ok(),
    };
    (Response::from_parts(head, Body::from(bytes)), value)
}

fn is_gzip(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_ENCODING).is_some_and(|encoding| encoding == "gzip")
}
