//! What is recorded of a request: metrics, and in simulations one line of the log.
//!
//! Corresponds to the audit and metrics stages of kube-apiserver. Audit policies and backends have no row here yet.

use crate::authn::UserInfo;
use crate::request::info::RequestInfo;
use crate::server::Server;
use axum::body::Body;
use http::Response;
use parking_lot::Mutex;
use prometheus_client::metrics::gauge::Gauge;
use proto::Object;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// One request from its arrival to its answer.
pub struct Record {
    began: Instant,
    user: String,
    /// Revision and hash of what the request stored or removed.
    stored: Mutex<Option<(u64, String)>>,
    /// What the client is told in `Warning` headers, whatever comes of the request.
    warnings: Mutex<Vec<String>>,
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
        Self {
            began: server.env.now(),
            user: "-".into(),
            stored: Mutex::default(),
            warnings: Mutex::default(),
            in_flight,
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

    pub fn end(mut self, server: &Server, info: &RequestInfo, response: &Response<Body>) {
        self.in_flight.take();
        let code = response.status().as_u16();
        server.metrics.observe(info, code, server.env.now().duration_since(self.began));
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

/// The beginning of the SHA-256 of an object's stored bytes.
pub fn hash(object: &Object) -> String {
    Sha256::digest(object.bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
