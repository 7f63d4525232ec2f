//! `Webhook`: sends events to a remote server.
//!
//! Corresponds to k8s.io/apiserver/plugin/pkg/audit/webhook and pkg/util/webhook.

use super::event::Event;
use axum::body::{Body, to_bytes};
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::rng::Random;
use http::{HeaderValue, Method, Request, Uri, header};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const USER_AGENT: &str = "kube-apiserver-orrery";
/// Attempts at one batch.
const ATTEMPTS: u32 = 5;
/// Growth of the pause from attempt to attempt.
const FACTOR: f64 = 1.5;
const JITTER: f64 = 0.2;
/// Timeout of one attempt.
const LIMIT: Duration = Duration::from_secs(30);
/// Limit of an answer's body, which is read and discarded.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Sends events to the server of a kubeconfig file.
#[derive(Clone)]
pub struct Webhook {
    env: Env,
    client: Client,
    path: Uri,
    random: Random,
    initial_backoff: Duration,
}

/// A failed attempt.
struct Failure {
    why: String,
    /// Another attempt may succeed.
    retry: bool,
}

impl Webhook {
    /// Connects to the server of a kubeconfig file. Events are sent to the path in its URL.
    pub fn new(env: &Env, connection: &Connection, initial_backoff: Duration) -> Result<Self, String> {
        let no_url = || format!("{:?} is no URL", connection.server);
        let server: Uri = connection.server.parse().map_err(|_| no_url())?;
        let (Some(scheme), Some(authority)) = (server.scheme_str(), server.authority()) else { return Err(no_url()) };
        let path = server.path_and_query().map_or("/", |path| path.as_str()).parse().map_err(|_| no_url())?;
        // The client would take the path of the server as a prefix, so it is sent with each request instead.
        let host = Connection { server: format!("{scheme}://{authority}"), ..connection.clone() };
        let client = Client::connect(env, &host, USER_AGENT).map_err(|error| error.to_string())?;
        Ok(Self { env: env.clone(), client, path, random: env.random("apiserver/audit"), initial_backoff })
    }

    /// Sends a batch, and repeats that after failures.
    pub async fn send(&self, events: &[Arc<Event>]) -> Result<(), String> {
        let events: Vec<&Event> = events.iter().map(Arc::as_ref).collect();
        let list = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {}, "items": events});
        let body = list.to_string();
        let mut pause = self.initial_backoff;
        let mut attempt = 1;
        loop {
            match self.attempt(&body).await {
                Ok(()) => return Ok(()),
                Err(Failure { why, retry }) if !retry || attempt == ATTEMPTS => return Err(why),
                Err(_) => {}
            }
            attempt += 1;
            tokio::select! {
                biased;
                // The next attempt is the last one at shutdown.
                () = self.env.shutdown().cancelled() => attempt = ATTEMPTS,
                () = self.env.sleep(self.random.jitter(pause, JITTER)) => {}
            }
            pause = pause.mul_f64(FACTOR);
        }
    }

    async fn attempt(&self, body: &str) -> Result<(), Failure> {
        let mut request = Request::new(Body::from(body.to_owned()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.path.clone();
        let json_type = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::CONTENT_TYPE, json_type);
        let exchange = async {
            let sent = self.client.send(request).await;
            let answer = sent.map_err(|error| Failure { why: error.to_string(), retry: true })?;
            let code = answer.status();
            // Read to its end, so that the connection can be used again.
            let _ = to_bytes(answer.into_body(), MAX_ANSWER_BYTES).await;
            if code.is_success() {
                return Ok(());
            }
            let retry = code.is_server_error() || code.as_u16() == 429;
            Err(Failure { why: format!("the webhook answered {code}"), retry })
        };
        let answer = self.env.timeout(LIMIT, exchange).await;
        answer.unwrap_or_else(|_| Err(Failure { why: "context deadline exceeded".to_owned(), retry: true }))
    }
}
