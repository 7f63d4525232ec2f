//! What is recorded of a request: metrics, and in simulations one line of the log.
//!
//! Corresponds to the audit and metrics stages of kube-apiserver. Audit policies and backends have no row here yet.

use crate::authn::UserInfo;
use crate::metrics::Answered;
use crate::request::ids::{AUDIT_ID, Ids};
use crate::request::info::RequestInfo;
use crate::server::Server;
use axum::body::{Body, HttpBody};
use component_base::logging;
use component_base::network::ConnectionInfo;
use http::request::Parts;
use http::{HeaderValue, Response, header};
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use proto::resources::Served;
use proto::{Gvr, Object};
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::time::Instant;

/// Of resources, and the methods of other paths.
const VERBS: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "post",
    "put",
    "head",
    "options",
];

/// One request from its arrival to its answer.
pub struct Record {
    began: Instant,
    user: String,
    /// Revision and hash of what the request stored or removed.
    stored: Mutex<Option<(u64, String)>>,
    /// What the client is told in `Warning` headers, whatever comes of the request.
    warnings: Mutex<Vec<String>>,
    in_flight: Option<InFlight>,
    ids: Ids,
    line: Option<Line>,
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
            let gauge = server.metrics.requests.in_flight(info);
            gauge.inc();
            InFlight(gauge)
        });
        Self {
            began: server.env.now(),
            user: "-".into(),
            stored: Mutex::default(),
            warnings: Mutex::default(),
            in_flight,
            ids: Ids::of(&parts.headers, &server.request_ids),
            line: Line::of(parts),
        }
    }

    /// Who called, before impersonation.
    pub fn caller(&mut self, user: &UserInfo) {
        self.user = user.name.clone();
    }

    /// Whom the request acts as.
    pub fn user(&mut self, user: &UserInfo) {
        if self.user != user.name {
            self.user = format!("{} as {}", self.user, user.name);
        }
    }

    /// What the request left in the store.
    pub fn stored(&self, server: &Server, object: &Object) {
        if server.log().is_some() {
            *self.stored.lock() = Some((object.revision, hash(object)));
        }
    }

    pub fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().extend(warnings);
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
        server.metrics.requests.observe(info, served, answered);
        let Some(log) = server.log() else { return };
        let Self { user, stored, .. } = self;
        let (revision, hash) = match stored.into_inner() {
            Some((revision, hash)) => (revision.to_string(), hash),
            None => ("-".to_owned(), "-".to_owned()),
        };
        let at = server.env.wall();
        (log.0)(format!("{at} {user} {} {} {code} {revision} {hash}", info.verb, info.path));
    }
}

/// Whether this server has what was asked for, and such a verb.
fn is_served(server: &Server, info: &RequestInfo) -> bool {
    let known = |served: &Served| info.subresource.is_empty() || served.subresource(&info.subresource).is_some();
    let gvr = Gvr::new(info.group.as_str(), info.version.as_str(), info.resource.as_str());
    VERBS.contains(&info.verb.as_str())
        && (!info.is_resource
            || server.registry.catalogue.load().by_gvr(&gvr).is_some_and(|target| known(target.served())))
}

/// The beginning of the SHA-256 of an object's stored bytes.
pub fn hash(object: &Object) -> String {
    Sha256::digest(object.bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
