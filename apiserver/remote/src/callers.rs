//! `Callers`: the connections to other servers, each kept for as long as it is of use.
//!
//! Corresponds to k8s.io/client-go/transport and its cache. In process an address is looked up among the services that
//! are registered in the environment.

use super::answers::Answers;
use super::reference::{ServiceReference, Simulated, Unresolved};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use cacher::lookup::Lookup;
use client::Client;
use component_base::dial::{DialError, Dialer};
use component_base::env::Env;
use component_base::kubeconfig::{Connection, Credentials};
use component_base::rng::Random;
use ipnet::IpNet;
use parking_lot::Mutex;
use proto::Status;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Servers to which connections are kept; when there are more, all are forgotten and made anew as they are needed.
const MAX_CALLERS: usize = 256;
/// How long a connection that is to be upgraded may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Where nodes come from does not change often.
const LOOK_AT_NODES_AGAIN: Duration = Duration::from_secs(10);
const USER_AGENT: &str = "kube-apiserver-orrery";
/// What the answers of all webhooks take at a time. Decoded they take several times as much, of the 512 MiB that a
/// container of the compose file has.
const WEBHOOK_ANSWERS_BYTES: usize = 64 << 20;
/// One of them may be a list of objects that was converted.
/// Deviation: a larger answer of a webhook is refused, where Kubernetes reads it to its end.
const WEBHOOK_ANSWER_BYTES: usize = 32 << 20;

/// How a server shows that it is the right one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trust {
    /// Who signs its certificate. Deviation: the machine's own authorities are not asked where none is given.
    pub ca_pem: Option<String>,
    pub insecure: bool,
    /// Empty: the host of its URL.
    pub server_name: String,
    /// Show it the certificate of `--proxy-client-cert-file`.
    pub as_proxy: bool,
    /// Or these, where there are any.
    pub credentials: Option<Credentials>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// What of the configuration cannot be used.
    #[error("{0}")]
    Unusable(String),
    /// The server does not answer.
    #[error("{0}")]
    Unreachable(String),
}

/// The certificate by which extension servers know this one as a proxy that may vouch for callers. PEM.
#[derive(Clone, Default)]
pub struct ProxyClient {
    pub cert_pem: Option<String>,
    pub key_pem: Option<String>,
}

/// Of one API server.
pub struct Callers {
    env: Env,
    random: Random,
    service_ranges: Vec<IpNet>,
    proxy_client: ProxyClient,
    answers: Answers,
    known: Mutex<BTreeMap<(String, Trust), Client>>,
    simulated: Mutex<Option<Addresses>>,
}

/// Which addresses are simulated, as it was seen for so many nodes at that time.
struct Addresses {
    seen: Instant,
    nodes: usize,
    simulated: Arc<Simulated>,
}

/// The PEM of a `caBundle`.
pub fn ca_bundle(value: &Value) -> Option<String> {
    let bytes = BASE64.decode(value.as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|pem| !pem.trim().is_empty())
}

impl Callers {
    pub fn new(env: &Env, service_ranges: Vec<IpNet>, proxy_client: ProxyClient) -> Self {
        Self {
            env: env.clone(),
            random: env.random("apiserver/remote"),
            service_ranges,
            proxy_client,
            answers: Answers::new(WEBHOOK_ANSWERS_BYTES, WEBHOOK_ANSWER_BYTES),
            known: Mutex::default(),
            simulated: Mutex::default(),
        }
    }

    /// Where the answers of webhooks are read.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Where a service is really served.
    pub fn resolve(&self, objects: &dyn Lookup, reference: &ServiceReference) -> Result<String, Unresolved> {
        reference.resolve(objects, || self.simulated(objects), &self.random)
    }

    /// Read off all nodes now and then, and whenever one comes or goes.
    fn simulated(&self, objects: &dyn Lookup) -> Result<Arc<Simulated>, Status> {
        let nodes = objects.list("", "nodes", "")?;
        let now = self.env.now();
        let mut known = self.simulated.lock();
        if let Some(known) = known.as_ref().filter(|k| k.nodes == nodes.len() && now - k.seen < LOOK_AT_NODES_AGAIN) {
            return Ok(known.simulated.clone());
        }
        let simulated = Arc::new(Simulated::of(&self.service_ranges, &nodes));
        *known = Some(Addresses { seen: now, nodes: nodes.len(), simulated: simulated.clone() });
        Ok(simulated)
    }

    fn connection(&self, authority: &str, trust: &Trust) -> Connection {
        let name = (!trust.server_name.is_empty()).then(|| trust.server_name.clone());
        let credentials = trust.credentials.clone().unwrap_or_else(|| Credentials {
            client_cert_pem: self.proxy_client.cert_pem.clone().filter(|_| trust.as_proxy),
            client_key_pem: self.proxy_client.key_pem.clone().filter(|_| trust.as_proxy),
            ..Credentials::default()
        });
        Connection {
            server: format!("https://{authority}"),
            ca_pem: trust.ca_pem.clone(),
            insecure: trust.insecure,
            tls_server_name: name,
            client_cert_pem: credentials.client_cert_pem,
            client_key_pem: credentials.client_key_pem,
            token: credentials.token,
            token_file: credentials.token_file,
            ..Connection::default()
        }
    }

    /// A client whose connections are shared by all who ask the same server in the same way.
    pub fn client(&self, authority: &str, trust: &Trust) -> Result<Client, CallError> {
        let key = (authority.to_owned(), trust.clone());
        if let Some(client) = self.known.lock().get(&key) {
            return Ok(client.clone());
        }
        let client = Client::connect(&self.env, &self.connection(authority, trust), USER_AGENT)
            .map_err(|error| CallError::Unusable(error.to_string()))?;
        let mut known = self.known.lock();
        if known.len() >= MAX_CALLERS {
            known.clear();
        }
        known.insert(key, client.clone());
        Ok(client)
    }

    /// For a connection of its own, which the answer may take over.
    pub fn dialer(&self, authority: &str, trust: &Trust) -> Result<Dialer, CallError> {
        Dialer::new(&self.env, &self.connection(authority, trust), CONNECT_LIMIT)
            .map_err(|error| CallError::Unusable(error.to_string()))
    }
}

impl From<DialError> for CallError {
    fn from(error: DialError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// Why a server cannot be reached, as Go's clients say it: that is what people look for.
pub fn unreachable(authority: &str, error: &client::Error) -> CallError {
    let text = error.to_string();
    let says = |what: &str| text.contains(what);
    CallError::Unreachable(if says("onnection refused") {
        format!("dial tcp {authority}: connect: connection refused")
    } else if says("dns error") || says("failed to lookup") {
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        format!("dial tcp: lookup {host}: no such host")
    } else if says("UnknownIssuer") || says("BadSignature") {
        "tls: failed to verify certificate: x509: certificate signed by unknown authority".to_owned()
    } else if says("invalid peer certificate") {
        let (_, why) = text.split_once("invalid peer certificate: ").unwrap_or(("", &text));
        format!("tls: failed to verify certificate: x509: {why}")
    } else {
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn errors_are_worded_as_clients_know_them() {
        for (text, expected) in [
            (
                "GET /x: a:1: client error (Connect): tcp connect error: Connection refused (os error 111)",
                "dial tcp a:1: connect: connection refused",
            ),
            (
                "GET /x: a:1: client error (Connect): invalid peer certificate: UnknownIssuer",
                "tls: failed to verify certificate: x509: certificate signed by unknown authority",
            ),
            (
                "client error (Connect): invalid peer certificate: certificate not valid for name \"a\"",
                "tls: failed to verify certificate: x509: certificate not valid for name \"a\"",
            ),
            ("GET /x: a:1: connection closed", "GET /x: a:1: connection closed"),
        ] {
            let error = client::Error::Transport(text.to_owned());
            assert_eq!(unreachable("a:1", &error).to_string(), expected);
        }
    }

    #[test]
    fn a_bundle_is_base64_of_pem() {
        assert_eq!(ca_bundle(&json!("UEVN")), Some("PEM".to_owned()));
        assert_eq!(ca_bundle(&json!("")), None);
        assert_eq!(ca_bundle(&json!(null)), None);
    }
}
