//! `Reviewer`: sends reviews of access and of tokens to the server that a kubeconfig file names.
//!
//! Corresponds to GenericWebhook of k8s.io/apiserver/pkg/util/webhook.

use super::answers::Answers;
use super::clients::unreachable;
use super::exchange::{Failure, post};
use client::Client;
use component_base::env::Env;
use component_base::kubeconfig::{self, Connection};
use component_base::rng::Random;
use http::Uri;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const USER_AGENT: &str = "kube-apiserver-orrery";
/// Number of attempts. The first pause grows by half with each of them.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const PAUSE_GROWS_BY: f64 = 1.5;
const JITTER: f64 = 0.2;
/// The folder in which a pod finds its credentials for the API server.
const ACCOUNT_FOLDER: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// Largest response, and budget for all of them at a time: reviews are small.
const MAX_ANSWER_BYTES: usize = 3 << 20;
const MAX_ANSWERS_BYTES: usize = 16 << 20;

#[derive(Clone)]
pub struct Reviewer {
    env: Env,
    random: Random,
    client: Client,
    authority: String,
    path: String,
    url: String,
    first_pause: Duration,
    answers: Answers,
}

impl std::fmt::Debug for Reviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviewer").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Reviewer {
    /// Reads the server and its credentials from a file in the form of a kubeconfig.
    pub fn of_file(env: &Env, path: &Path) -> Result<Self, String> {
        let connection = kubeconfig::read(path).map_err(|error| error.to_string())?;
        Self::of(env, &connection)
    }

    /// Uses the API server of the cluster in which this process is a pod.
    pub fn in_cluster(env: &Env) -> Result<Self, String> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
        else {
            return Err("unable to load in-cluster configuration, KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined".to_owned());
        };
        let folder = Path::new(ACCOUNT_FOLDER);
        let ca = folder.join("ca.crt");
        let ca_pem = std::fs::read_to_string(&ca).map_err(|error| format!("{}: {error}", ca.display()))?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        let connection = Connection {
            server: format!("https://{host}:{port}"),
            ca_pem: Some(ca_pem),
            token_file: Some(folder.join("token")),
            ..Connection::default()
        };
        Self::of(env, &connection)
    }

    pub fn of(env: &Env, connection: &Connection) -> Result<Self, String> {
        let url = connection.server.clone();
        let invalid = |why: &dyn std::fmt::Display| format!("{url}: {why}");
        let uri: Uri = url.parse().map_err(|error| invalid(&error))?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(invalid(&"no URL"));
        };
        // The base has no path: the review is posted to exactly the path of the URL.
        let base = Connection { server: format!("{scheme}://{authority}"), ..connection.clone() };
        let client = Client::connect(env, &base, USER_AGENT).map_err(|error| invalid(&error))?;
        Ok(Self {
            env: env.clone(),
            random: env.random("apiserver/reviewer"),
            client,
            authority: authority.to_string(),
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            url,
            first_pause: FIRST_PAUSE,
            answers: Answers::new(MAX_ANSWERS_BYTES, MAX_ANSWER_BYTES),
        })
    }

    /// Sets the pause before the second attempt.
    pub fn with_first_pause(self, first_pause: Duration) -> Self {
        Self { first_pause, ..self }
    }

    /// Sends a review and returns the response, within a time limit. The error describes the request as Go's client
    /// does.
    pub async fn send(&self, review: &Value, limit: Duration) -> Result<Value, String> {
        let answer = self.env.timeout(limit, self.send_with_retries(review)).await;
        answer.unwrap_or_else(|_| Err(self.failed("context deadline exceeded")))
    }

    fn failed(&self, why: &str) -> String {
        format!("Post {:?}: {why}", self.url)
    }

    async fn send_with_retries(&self, review: &Value) -> Result<Value, String> {
        let mut pause = self.first_pause;
        for attempt in 1.. {
            let failure = match post(&self.client, &self.path, review, &self.answers).await {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(failure) => failure,
            };
            if attempt == ATTEMPTS || !failure.is_transient() {
                return Err(match failure {
                    Failure::Unreachable(error) => self.failed(&unreachable(&self.authority, &error).to_string()),
                    other => other.to_string(),
                });
            }
            self.env.sleep(self.random.jitter(pause, JITTER)).await;
            pause = pause.mul_f64(PAUSE_GROWS_BY);
        }
        unreachable!("the last attempt returns")
    }
}
