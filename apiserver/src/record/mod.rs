//! `Record`: collects the metrics, the audit trail, the trace and the log lines of one request while it is served.
//!
//! Corresponds to the audit and metrics stages of kube-apiserver.

mod traced;

use crate::audit::trail::Trail;
use crate::metrics::Answered;
use crate::request_log::{LogRow, Logged};
use crate::server::Server;
use access::authz::Decision;
use axum::body::{Body, HttpBody};
use component_base::logging;
use component_base::network::ConnectionInfo;
use flow_control::configuration::Flow;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, header};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use proto::resources::Served;
use proto::{Gvr, Object};
use registry::mutation::Mutation;
use request::UserInfo;
use request::ids::{AUDIT_ID, Ids};
use request::info::RequestInfo;
use request::trace::Draft;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

const FLOW_SCHEMA_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const PRIORITY_LEVEL_UID: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The record of one request, from its arrival to its response.
pub struct Record {
    began: Instant,
    /// The user for the request log: `-`, `NAME` or `NAME as IMPERSONATED`.
    user: String,
    /// Revision and hash of the object that the request wrote or deleted.
    stored: Mutex<Option<(u64, String)>>,
    /// Warnings for the response's `Warning` headers, whether the request succeeds or not.
    warnings: Mutex<Vec<String>>,
    /// Annotations of the audit event: of admission and of authorization.
    annotations: Mutex<BTreeMap<String, String>>,
    /// `None` for long-running requests, which are not counted.
    in_flight: Option<InFlight>,
    /// The uids of the flow schema and the priority level.
    flow: (Option<HeaderValue>, Option<HeaderValue>),
    pub ids: Ids,
    log_line: Option<HttpLogLine>,
    /// The audit trail; `None` if the audit policy does not record the request.
    trail: Option<Trail>,
    /// The name of the object that the request wrote, for the audit trail.
    name: Mutex<Option<String>>,
    /// The trace; `None` unless the client asks for one.
    pub trace: Option<Box<Draft>>,
}

/// The log line that is written for every request at a high `-v`.
struct HttpLogLine {
    uri: String,
    user_agent: String,
    source: String,
}

impl HttpLogLine {
    fn of(parts: &Parts) -> Option<Self> {
        let is_enabled = tracing::enabled!(target: logging::REQUESTS, tracing::Level::INFO);
        is_enabled.then(|| Self {
            uri: parts.uri.to_string(),
            user_agent: text(parts.headers.get(header::USER_AGENT)),
            source: parts.extensions.get::<ConnectionInfo>().map(|c| c.remote_address.to_string()).unwrap_or_default(),
        })
    }

    /// Writes the line with the fields of kube-apiserver's `HTTP` line.
    fn write(&self, info: &RequestInfo, ids: &Ids, code: u16, latency: Duration) {
        let trace = ids.trace.as_deref();
        let Self { uri, user_agent, source } = self;
        tracing::info!(
            target: logging::REQUESTS,
            verb = %info.verb.to_ascii_uppercase(), %uri, ?latency, user_agent, audit_id = ids.audit, src_ip = source,
            resp = code, trace, "HTTP"
        );
    }
}

fn text(value: Option<&HeaderValue>) -> String {
    value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

/// Counts a request as in flight until this is dropped.
struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Record {
    pub fn begin(server: &Server, info: &RequestInfo, parts: &Parts) -> Self {
        let in_flight = (!info.is_long_running()).then(|| {
            let gauge = server.records.metrics.requests.in_flight(info);
            gauge.inc();
            InFlight(gauge)
        });
        Self {
            began: server.env.now(),
            user: "-".into(),
            stored: Mutex::default(),
            warnings: Mutex::default(),
            annotations: Mutex::default(),
            in_flight,
            flow: (None, None),
            ids: Ids::of(&parts.headers, &server.records.request_ids),
            log_line: HttpLogLine::of(parts),
            trail: None,
            name: Mutex::default(),
            trace: server.records.request_traces.as_ref().and_then(|_| Draft::of(&server.env, parts, info)),
        }
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// Begins the audit trail; `user` is `None` if authentication failed. Returns false if the request has to fail
    /// because its audit event could not be stored.
    pub async fn begin_audit(
        &mut self,
        server: &Server,
        parts: &Parts,
        info: &RequestInfo,
        user: Option<&UserInfo>,
    ) -> bool {
        let Some(audit) = &server.records.audit else { return true };
        self.trail = Trail::begin(audit, &self.ids.audit, parts, info, user);
        match &self.trail {
            Some(trail) if user.is_some() => trail.received().await,
            _ => true,
        }
    }

    /// Returns the request's body. The audit trail copies what is read from it, if its level records request bodies.
    pub fn copy_request(&mut self, body: Body) -> Body {
        match &mut self.trail {
            Some(trail) => trail.copy_request(body),
            None => body,
        }
    }

    /// Gives the audit trail the message of a panic in a handler.
    pub fn audit_panic(&mut self, why: &str) {
        if let Some(trail) = &mut self.trail {
            trail.panicked(why);
        }
    }

    /// Adds an annotation to the audit event, unless its key is taken.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        if self.trail.is_some() {
            self.annotations.lock().entry(key.to_owned()).or_insert_with(|| value.into());
        }
    }

    /// Annotates the audit event with the decision of the authorizers.
    pub fn annotate_decision(&self, decision: &Decision) {
        let (verdict, reason) = match decision {
            Decision::Allow(reason) => ("allow", reason),
            Decision::NoOpinion(reason) | Decision::Deny(reason) => ("forbid", reason),
        };
        self.annotate("authorization.k8s.io/decision", verdict);
        self.annotate("authorization.k8s.io/reason", reason.as_str());
    }

    /// Ends the audit trail. The trail of a long-running response ends with the response's body.
    pub async fn audit_response(&mut self, response: Response<Body>) -> Response<Body> {
        let Some(trail) = self.trail.take() else { return response };
        let written = self.name.lock().take();
        trail.answered(response, self.annotations(), written.as_deref()).await
    }

    /// Sets the authenticated user, before impersonation.
    pub fn set_authenticated_user(&mut self, user: &UserInfo) {
        self.user = user.name.clone();
    }

    /// Sets the user that the request acts as: the impersonated one, or the authenticated one again.
    pub fn set_user(&mut self, user: &UserInfo) {
        if let Some(trace) = &mut self.trace {
            trace.set_impersonated_user(user);
        }
        if self.user != user.name {
            self.user = format!("{} as {}", self.user, user.name);
        }
        if let Some(trail) = &mut self.trail {
            trail.acts_as(user);
        }
    }

    /// Sets the flow schema and priority level of the request, for the response's headers.
    pub fn set_flow(&mut self, flow: Option<&Flow>) {
        self.flow = flow.map(|flow| flow.uids.clone()).unwrap_or_default();
    }

    /// Sets the object that the request wrote or deleted.
    pub fn set_stored(&self, server: &Server, object: &Object) {
        if self.trail.is_some() {
            *self.name.lock() = Some(object.index.name.clone());
        }
        if server.request_log().is_some() {
            *self.stored.lock() = Some((object.revision, hash(object)));
        }
    }

    /// Returns the audit id as a header for requests to aggregated API servers.
    pub fn audit_id(&self) -> Option<HeaderValue> {
        self.ids.audit_header()
    }

    /// Adds warnings for the response's `Warning` headers.
    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(warnings);
    }

    /// Moves the warnings and audit annotations of a mutation into this record.
    pub fn take_notes(&self, mutation: &mut Mutation<'_>) {
        self.warn(mutation.warnings.drain(..));
        self.annotations.lock().append(&mut mutation.annotations);
    }

    /// Returns the audit annotations so far.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.annotations.lock().clone()
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    /// Adds the record's headers to the response, and writes the request's trace, log lines and metrics.
    pub fn finish(mut self, server: &Server, info: &RequestInfo, response: &mut Response<Body>) {
        self.in_flight.take();
        let code = response.status().as_u16();
        let elapsed = server.env.now().duration_since(self.began);
        if let Some(id) = self.ids.audit_header() {
            response.headers_mut().insert(AUDIT_ID, id);
        }
        let (schema, level) = std::mem::take(&mut self.flow);
        for (name, uid) in [(FLOW_SCHEMA_UID, schema), (PRIORITY_LEVEL_UID, level)] {
            uid.map(|uid| response.headers_mut().insert(name, uid));
        }
        self.end_trace(server, code, elapsed, response);
        if let Some(line) = &self.log_line {
            line.write(info, &self.ids, code, elapsed);
        }
        let answered = Answered {
            code,
            elapsed,
            bytes: response.body().size_hint().exact(),
            dry_run: info.query.get("dryRun").is_some_and(|value| value == "All"),
        };
        // A refused request may name resources that do not exist: they must not become labels of metrics.
        let served = code < 400 || is_served(server, info);
        server.records.metrics.requests.observe(info, served, answered);
        let Some(log) = server.request_log() else { return };
        let Self { user, stored, .. } = self;
        let (revision, hash) = stored.into_inner().unzip();
        let (verb, path) = (info.verb.clone(), info.path.clone());
        let logged = Logged::Request { user, verb, path, code, revision, hash };
        (log.0)(LogRow { at: server.env.wall(), logged });
    }
}

/// Returns whether this server serves the resource and subresource of the request.
fn is_served(server: &Server, info: &RequestInfo) -> bool {
    let known = |served: &Served| info.subresource.is_empty() || served.subresource(&info.subresource).is_some();
    let gvr = Gvr::new(info.group.as_str(), info.version.as_str(), info.resource.as_str());
    !info.is_resource || server.registry.catalogue.load().by_gvr(&gvr).is_some_and(|target| known(target.served()))
}

/// Returns the first eight bytes of the SHA-256 of an object's stored bytes, in hexadecimal.
pub fn hash(object: &Object) -> String {
    Sha256::digest(object.bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
