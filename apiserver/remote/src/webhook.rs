//! `Webhook`: sends a request as JSON to a webhook, and reads its response.
//!
//! Corresponds to ClientManager of k8s.io/apiserver/pkg/util/webhook.

use super::answers::Answer;
use super::clients::{CallError, Clients, Trust, ca_bundle, unreachable};
use super::exchange::{Failure, post};
use super::reference::ServiceReference;
use super::users::Users;
use cacher::lookup::Lookup;
use component_base::env::Env;
use component_base::kubeconfig::Credentials;
use serde_json::Value;
use std::time::Duration;

/// `clientConfig`: the address of a webhook, and the authority of its certificate.
#[derive(Clone, Debug, PartialEq)]
pub struct Webhook {
    location: Location,
    ca_pem: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Location {
    Service(ServiceReference),
    Url { host: String, port: u16, path: String },
}

/// The reason for which a call of a webhook failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct WebhookError {
    pub message: String,
    /// The code of the webhook's error response.
    pub code: Option<u16>,
}

impl From<String> for WebhookError {
    fn from(message: String) -> Self {
        Self { message, code: None }
    }
}

/// What a call needs of the API server.
#[derive(Clone, Copy)]
pub struct WebhookContext<'a> {
    pub env: &'a Env,
    pub clients: &'a Clients,
    pub objects: &'a dyn Lookup,
    /// The credentials for webhooks.
    pub users: &'a Users,
}

impl Webhook {
    /// Reads a `clientConfig`; `None` for one that validation refuses.
    pub fn read(config: &Value) -> Option<Self> {
        let ca_pem = ca_bundle(&config["caBundle"]);
        if let Some(reference) = ServiceReference::read(&config["service"]) {
            return Some(Self { location: Location::Service(reference), ca_pem });
        }
        let url: http::Uri = config["url"].as_str()?.parse().ok()?;
        let (host, port) = (url.host()?.to_owned(), url.port_u16().unwrap_or(443));
        let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Some(Self { location: Location::Url { host, port, path }, ca_pem })
    }

    /// Returns the URL for error messages, which names the service and not its address.
    fn url(&self, query: &str) -> String {
        match &self.location {
            Location::Service(reference) => {
                format!("https://{}:{}{}{query}", reference.server_name(), reference.port, self.path())
            }
            Location::Url { host, port: 443, path } => format!("https://{host}{path}{query}"),
            Location::Url { host, port, path } => format!("https://{host}:{port}{path}{query}"),
        }
    }

    fn path(&self) -> &str {
        match &self.location {
            Location::Service(reference) if reference.path.is_empty() => "/",
            Location::Service(reference) => &reference.path,
            Location::Url { path, .. } => path,
        }
    }

    /// Sends a body and reads a successful response. The error describes the request as Go's client does.
    pub async fn call(
        &self,
        context: WebhookContext<'_>,
        body: &Value,
        limit: Duration,
    ) -> Result<Answer<Value>, WebhookError> {
        let query = format!("?timeout={}s", limit.as_secs_f64().ceil());
        let url = self.url(&query);
        let failed = |why: String| WebhookError::from(format!("Post {url:?}: {why}"));
        let (authority, trust) = self.resolve(context).map_err(|error| failed(error.to_string()))?;
        let client = context.clients.client(&authority, &trust).map_err(|error| failed(error.to_string()))?;
        let path = format!("{}{query}", self.path());
        let exchange = async {
            post(&client, &path, body, context.clients.answers()).await.map_err(|failure| match failure {
                Failure::Unreachable(error) => failed(unreachable(&authority, &error).to_string()),
                Failure::Refused { code, text } => WebhookError { message: text, code: Some(code) },
                Failure::InvalidAnswer(why) => WebhookError::from(why),
            })
        };
        let answer = context.env.timeout(limit, exchange).await;
        answer.unwrap_or_else(|_| Err(failed("context deadline exceeded".to_owned())))
    }

    fn resolve(&self, context: WebhookContext<'_>) -> Result<(String, Trust), CallError> {
        let trust = |server_name: String, credentials: Option<&Credentials>| Trust {
            ca_pem: self.ca_pem.clone(),
            server_name,
            credentials: credentials.cloned(),
            ..Trust::default()
        };
        match &self.location {
            Location::Url { host, port, .. } => {
                Ok((format!("{host}:{port}"), trust(String::new(), context.users.of(host, *port))))
            }
            Location::Service(reference) => {
                let authority = context.clients.resolve(context.objects, reference)?;
                let name = reference.server_name();
                let user = context.users.of(&name, reference.port);
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
