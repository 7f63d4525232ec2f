//! What is recorded of a request: metrics, and in simulations one line of the log.
//!
//! Corresponds to the audit and metrics stages of kube-apiserver. Audit policies and backends have no row here yet.

use crate::authn::UserInfo;
use crate::request::info::RequestInfo;
use crate::server::Server;
use axum::body::Body;
use http::Response;
use prometheus_client::metrics::gauge::Gauge;
use proto::Object;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// One request from its arrival to its answer.
pub struct Record {
    began: Instant,
    user: String,
    /// Revision and hash of what the request stored or removed.
    stored: Option<(u64, String)>,
    in_flight: Option<InFlight>,
}

/// Counts a request for as long as it lives, however it ends.
struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Record {
    pub fn begin(server: &Server, info: &RequestInfo) -> Self {
        let in_flight = (!info.is_long_running()).then(|| {
            let gauge = server.metrics.in_flight(info);
            gauge.inc();
            InFlight(gauge)
        });
        Self { began: server.env.now(), user: "-".into(), stored: None, in_flight }
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
    pub fn stored(&mut self, server: &Server, object: &Object) {
        if server.log().is_some() {
            self.stored = Some((object.revision, hash(object)));
        }
    }

    pub fn end(mut self, server: &Server, info: &RequestInfo, response: &Response<Body>) {
        self.in_flight.take();
        let code = response.status().as_u16();
        server.metrics.observe(info, code, server.env.now().duration_since(self.began));
        let Some(log) = server.log() else { return };
        let (revision, hash) = match &self.stored {
            Some((revision, hash)) => (revision.to_string(), hash.as_str()),
            None => ("-".to_owned(), "-"),
        };
        let Self { user, .. } = &self;
        let at = server.env.wall();
        (log.0)(format!("{at} {user} {} {} {code} {revision} {hash}", info.verb, info.path));
    }
}

/// The beginning of the SHA-256 of an object's stored bytes.
pub fn hash(object: &Object) -> String {
    Sha256::digest(object.bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
