//! `Record`: what is noted of a request: metrics, its audit trail, and in simulations one line of the log.
//!
//! Corresponds to the audit and metrics stages of kube-apiserver.

mod traced;

use crate::audit::trail::Trail;
use crate::metrics::Answered;
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

/// One request from its arrival to its answer.
pub struct Record {
    began: Instant,
    user: String,
    /// Revision and hash of what the request stored or removed.
    stored: Mutex<Option<(u64, String)>>,
    /// What the client is told in `Warning` headers, whatever comes of the request.
    warnings: Mutex<Vec<String>>,
    /// What admission noted about the request.
    annotations: Mutex<BTreeMap<String, String>>,
    in_flight: Option<InFlight>,
    /// The uids of the flow schema and the priority level.
    flow: (Option<HeaderValue>, Option<HeaderValue>),
    pub ids: Ids,
    line: Option<Line>,
    /// Where the audit policy wants to know of it.
    trail: Option<Trail>,
    /// The name of what it wrote, for the trail.
    name: Mutex<Option<String>>,
    /// Where the client wants to see its way.
    pub trace: Option<Box<Draft>>,
}

/// What the log says of the one who asked, where `-v` wants to know of every request.
struct Line {
    uri: String,
    user_agent: String,
    source: String,
}

impl Line {
    fn of(parts: &Parts) -> Option<Self> {
        let wanted = tracing::enabled!(target: logging::REQUESTS, tracing::Level::INFO);
        wanted.then(|| Self {
            uri: parts.uri.to_string(),
            user_agent: text(parts.headers.get(header::USER_AGENT)),
            source: parts.extensions.get::<ConnectionInfo>().map(|c| c.remote_address.to_string()).unwrap_or_default(),
        })
    }

    /// As kube-apiserver writes it.
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

/// Counts a request for as long as it lives, however it ends.
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
            line: Line::of(parts),
            trail: None,
            name: Mutex::default(),
            trace: server.records.request_traces.as_ref().and_then(|_| Draft::of(&server.env, parts, info)),
        }
    }

    pub fn began(&self) -> Instant {
        self.began
    }

    /// Begins the audit trail of a request of this user, or of one whom nobody knows. False where the request has to
    /// fail because that could not be written down.
    pub async fn audit(&mut self, server: &Server, parts: &Parts, info: &RequestInfo, user: Option<&UserInfo>) -> bool {
        let Some(audit) = &server.records.audit else { return true };
        self.trail = Trail::begin(audit, &self.ids.audit, parts, info, user);
        match &self.trail {
            Some(trail) if user.is_some() => trail.received().await,
            _ => true,
        }
    }

    /// A body that the trail listens to, where it has to.
    pub fn overhear(&mut self, body: Body) -> Body {
        match &mut self.trail {
            Some(trail) => trail.copy_request(body),
            None => body,
        }
    }

    pub fn panicked(&mut self, why: &str) {
        if let Some(trail) = &mut self.trail {
            trail.panicked(why);
        }
    }

    /// Notes something for the audit trail, unless its key is taken.
    pub fn annotate(&self, key: &str, value: impl Into<String>) {
        if self.trail.is_some() {
            self.annotations.lock().entry(key.to_owned()).or_insert_with(|| value.into());
        }
    }

    /// What the authorizers said.
    pub fn decided(&self, decision: &Decision) {
        let (verdict, reason) = match decision {
            Decision::Allow(reason) => ("allow", reason),
            Decision::NoOpinion(reason) | Decision::Deny(reason) => ("forbid", reason),
        };
        self.annotate("authorization.k8s.io/decision", verdict);
        self.annotate("authorization.k8s.io/reason", reason.as_str());
    }

    /// Ends the trail, or lets an answer that goes on for long do it.
    pub async fn answered(&mut self, response: Response<Body>) -> Response<Body> {
        let Some(trail) = self.trail.take() else { return response };
        let created = self.name.lock().take();
        trail.answered(response, self.annotations(), created.as_deref()).await
    }

    /// Who called, before impersonation.
    pub fn caller(&mut self, user: &UserInfo) {
        self.user = user.name.clone();
    }

    /// Whom the request acts as.
    pub fn user(&mut self, user: &UserInfo) {
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

    /// Under which flow schema it falls.
    pub fn flow(&mut self, flow: Option<&Flow>) {
        self.flow = flow.map(|flow| flow.uids.clone()).unwrap_or_default();
    }

    /// What the request left in the store.
    pub fn stored(&self, server: &Server, object: &Object) {
        if self.trail.is_some() {
            *self.name.lock() = Some(object.index.name.clone());
        }
        if server.request_log().is_some() {
            *self.stored.lock() = Some((object.revision, hash(object)));
        }
    }

    /// For those to whom the request is passed on.
    pub fn audit_id(&self) -> Option<HeaderValue> {
        self.ids.audit_header()
    }

    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(warnings);
    }

    /// Takes over what a write has collected for the answer and for the audit log.
    pub fn heard(&self, mutation: &mut Mutation<'_>) {
        self.warn(mutation.warnings.drain(..));
        self.annotations.lock().append(&mut mutation.annotations);
    }

    /// By key, what admission noted so far.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        self.annotations.lock().clone()
    }

    pub fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.warnings.lock())
    }

    pub fn end(mut self, server: &Server, info: &RequestInfo, response: &mut Response<Body>) {
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
        if let Some(line) = &self.line {
            line.write(info, &self.ids, code, elapsed);
        }
        let answered = Answered {
            code,
            elapsed,
            bytes: response.body().size_hint().exact(),
            dry_run: info.query.get("dryRun").is_some_and(|value| value == "All"),
        };
        // Whoever is refused may have made up what he asked for.
        let served = code < 400 || is_served(server, info);
        server.records.metrics.requests.observe(info, served, answered);
        let Some(log) = server.request_log() else { return };
        let Self { user, stored, .. } = self;
        let (revision, hash) = match stored.into_inner() {
            Some((revision, hash)) => (revision.to_string(), hash),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let at = server.env.wall();
        (log.0)(format!("{at} {user} {} {} {code} {revision} {hash}", info.verb, info.path));
    }
}

/// Whether this server has what was asked for.
fn is_served(server: &Server, info: &RequestInfo) -> bool {
    let known = |served: &Served| info.subresource.is_empty() || served.subresource(&info.subresource).is_some();
    let gvr = Gvr::new(info.group.as_str(), info.version.as_str(), info.resource.as_str());
    !info.is_resource || server.registry.catalogue.load().by_gvr(&gvr).is_some_and(|target| known(target.served()))
}

/// The beginning of the SHA-256 of an object's stored bytes.
pub fn hash(object: &Object) -> String {
    Sha256::digest(object.bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
