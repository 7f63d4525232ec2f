//! `Trail`: the audit events of one request, from its arrival to its answer.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/filters/audit.go.
//!
//! Deviation: a request's object stands there as the client sent it, without defaults.

use super::Audit;
use super::event::{Event, response_status, without_managed_fields};
use super::overheard::{Copy, Overheard};
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

pub struct Trail {
    audit: Arc<Audit>,
    decision: Decision,
    event: Event,
    format: Format,
    /// What the client sent, as far as somebody read it.
    request: Option<Copy>,
    /// Nobody knows who it is: the answer is all there is to tell.
    unauthenticated: bool,
    long_running: bool,
    panic: Option<String>,
}

impl Trail {
    /// `None` where the policy says so.
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

    /// False where the request has to fail because this could not be written down.
    pub async fn received(&self) -> bool {
        let stored = self.process(self.event.clone()).await;
        if !stored {
            self.audit.reject();
        }
        stored
    }

    /// As whom the request acts.
    pub fn acts_as(&mut self, user: &UserInfo) {
        let user = user.to_value();
        if user != self.event.user {
            self.event.impersonated_user = Some(user);
        }
    }

    /// A body that is listened to, if what it says is to be written down.
    pub fn overhear(&mut self, body: Body) -> Body {
        if self.decision.level < Level::Request {
            return body;
        }
        let (body, copy) = Overheard::copied(body, MAX_BODY_BYTES);
        self.request = Some(copy);
        body
    }

    pub fn panicked(&mut self, why: &str) {
        self.panic = Some(why.to_owned());
    }

    async fn process(&self, event: Event) -> bool {
        self.decision.omit_stages.contains(&event.stage) || self.audit.process(event).await
    }

    /// Writes down how it went. The answer goes on, perhaps in another body.
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
        self.tell_request();
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
            return self.begun(response).await;
        }
        let wants_body = self.decision.level == Level::RequestResponse || code >= 400;
        let (response, body) = if wants_body { read(response).await } else { (response, None) };
        self.event.response_status = Some(response_status(code, body.as_ref()));
        if self.decision.level == Level::RequestResponse {
            self.event.response_object = body.map(|body| self.shown(body));
        }
        let stage = if self.unauthenticated { Stage::ResponseStarted } else { Stage::ResponseComplete };
        self.process(self.event.at(stage, self.audit.env.wall())).await;
        response
    }

    /// An answer that goes on for long: its end is written down when it comes.
    async fn begun(mut self, response: Response<Body>) -> Response<Body> {
        self.event.response_status = Some(response_status(response.status().as_u16(), None));
        self.process(self.event.at(Stage::ResponseStarted, self.audit.env.wall())).await;
        if self.decision.omit_stages.contains(&Stage::ResponseComplete) {
            return response;
        }
        let Self { audit, event, .. } = self;
        let end = move || audit.process_soon(event.at(Stage::ResponseComplete, audit.env.wall()));
        response.map(|body| Overheard::until_end(body, end))
    }

    /// What the client sent, if it is to be told and can be read.
    fn tell_request(&mut self) {
        let Some(copy) = self.request.take() else { return };
        let bytes = std::mem::take(&mut *copy.lock());
        if bytes.is_empty() {
            return;
        }
        let Ok(document) = Document::parse(self.format, &bytes) else { return };
        let object = whole(document);
        if let Some(reference) = self.event.object_ref.as_mut().filter(|_| object.get("metadata").is_some()) {
            reference.complete(&object);
        }
        self.event.request_object = Some(self.shown(object));
    }

    fn shown(&self, object: Value) -> Value {
        if self.decision.omit_managed_fields { without_managed_fields(object) } else { object }
    }
}

/// What a body says. Protobuf is read by the type that it names; of one that is not known here, only its name is told.
fn whole(document: Document<'_>) -> Value {
    if document.format != Format::Protobuf {
        return document.value;
    }
    let named = document.value.clone();
    let text = |key: &str| named[key].as_str().unwrap_or_default();
    let (group, version) = split_api_version(text("apiVersion"));
    let gvk = Gvk::new(group, version, text("kind"));
    let schema = match Catalogue::builtin().by_gvk(&gvk) {
        Some(target) => target.served().schema.clone(),
        // What goes to every resource, and to subresources.
        None if gvk.kind == "DeleteOptions" => builtin_type("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"),
        None => {
            let package = group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
            builtin_type(&format!("io.k8s.api.{package}.{version}.{}", gvk.kind))
        }
    };
    let Ok(decoded) = decode_document(&schema, document) else { return named };
    let mut value = decoded.value;
    for key in ["apiVersion", "kind"] {
        value[key] = named[key].clone();
    }
    value
}

/// The same answer, and what it says, if that is JSON.
async fn read(response: Response<Body>) -> (Response<Body>, Option<Value>) {
    let (head, body) = response.into_parts();
    let bytes = match to_bytes(body, usize::MAX).await {
        Ok(bytes) => bytes,
        // What was lost on the way is lost for the client too.
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
