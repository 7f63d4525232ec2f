//! `Webhook`: one question to a server of somebody else's, as JSON, and its answer.
//!
//! Corresponds to ClientManager of k8s.io/apiserver/pkg/util/webhook.

use super::answers::Answer;
use super::callers::{CallError, Callers, Trust, ca_bundle, unreachable};
use super::exchange::{Failure, post};
use super::reference::ServiceReference;
use super::users::Users;
use cacher::lookup::Lookup;
use component_base::env::Env;
use component_base::kubeconfig::Credentials;
use serde_json::Value;
use std::time::Duration;

/// `clientConfig`: where a webhook is, and how it shows that it is the right one.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    place: Place,
    ca_pem: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Place {
    Service(ServiceReference),
    Url { host: String, port: u16, path: String },
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct NoAnswer {
    pub message: String,
    /// What the server answered instead.
    pub code: Option<u16>,
}

impl From<String> for NoAnswer {
    fn from(message: String) -> Self {
        Self { message, code: None }
    }
}

/// Of one environment, what a question needs.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    pub env: &'a Env,
    pub callers: &'a Callers,
    pub objects: &'a dyn Lookup,
    /// As whom to ask.
    pub users: &'a Users,
}

impl Webhook {
    /// `None` for what validation does not let pass.
    pub fn read(config: &Value) -> Option<Self> {
        let ca_pem = ca_bundle(&config["caBundle"]);
        if let Some(reference) = ServiceReference::read(&config["service"]) {
            return Some(Self { place: Place::Service(reference), ca_pem });
        }
        let url: http::Uri = config["url"].as_str()?.parse().ok()?;
        let (host, port) = (url.host()?.to_owned(), url.port_u16().unwrap_or(443));
        let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Some(Self { place: Place::Url { host, port, path }, ca_pem })
    }

    /// The URL for errors: a service has a name there, not an address.
    fn url(&self, query: &str) -> String {
        match &self.place {
            Place::Service(reference) => {
                format!("https://{}:{}{}{query}", reference.server_name(), reference.port, self.path())
            }
            Place::Url { host, port: 443, path } => format!("https://{host}{path}{query}"),
            Place::Url { host, port, path } => format!("https://{host}:{port}{path}{query}"),
        }
    }

    fn path(&self) -> &str {
        match &self.place {
            Place::Service(reference) if reference.path.is_empty() => "/",
            Place::Service(reference) => &reference.path,
            Place::Url { path, .. } => path,
        }
    }

    /// Sends a body and reads the answer, of success. The error says what was tried, as Go's client does.
    pub async fn ask(&self, asking: Asking<'_>, body: &Value, limit: Duration) -> Result<Answer<Value>, NoAnswer> {
        let query = format!("?timeout={}s", limit.as_secs_f64().ceil());
        let url = self.url(&query);
        let failed = |why: String| NoAnswer::from(format!("Post {url:?}: {why}"));
        let (authority, trust) = self.place(asking).map_err(|error| failed(error.to_string()))?;
        let client = asking.callers.client(&authority, &trust).map_err(|error| failed(error.to_string()))?;
        let path = format!("{}{query}", self.path());
        let exchange = async {
            post(&client, &path, body, asking.callers.answers()).await.map_err(|failure| match failure {
                Failure::Unreachable(error) => failed(unreachable(&authority, &error).to_string()),
                Failure::Refused { code, text } => NoAnswer { message: text, code: Some(code) },
                Failure::Garbage(why) => NoAnswer::from(why),
            })
        };
        let answer = asking.env.timeout(limit, exchange).await;
        answer.unwrap_or_else(|_| Err(failed("context deadline exceeded".to_owned())))
    }

    fn place(&self, asking: Asking<'_>) -> Result<(String, Trust), CallError> {
        let trust = |server_name: String, credentials: Option<&Credentials>| Trust {
            ca_pem: self.ca_pem.clone(),
            server_name,
            credentials: credentials.cloned(),
            ..Trust::default()
        };
        match &self.place {
            Place::Url { host, port, .. } => {
                Ok((format!("{host}:{port}"), trust(String::new(), asking.users.of(host, *port))))
            }
            Place::Service(reference) => {
                let authority = asking.callers.resolve(asking.objects, reference)?;
                let name = reference.server_name();
                let user = asking.users.of(&name, reference.port);
                Ok((authority, trust(name, user)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_webhook_is_a_service_or_a_url() {
        for (config, url) in [
            (
                json!({"service": {"namespace": "n", "name": "s", "path": "/convert"}}),
                "https://s.n.svc:443/convert?timeout=30s",
            ),
            (json!({"service": {"namespace": "n", "name": "s", "port": 8443}}), "https://s.n.svc:8443/?timeout=30s"),
            (json!({"url": "https://127.0.0.1:9/x/y"}), "https://127.0.0.1:9/x/y?timeout=30s"),
            (json!({"url": "https://hooks.example/x"}), "https://hooks.example/x?timeout=30s"),
        ] {
            assert_eq!(Webhook::read(&config).unwrap().url("?timeout=30s"), url);
        }
        assert_eq!(Webhook::read(&json!({})), None);
    }
}
