//! `Clients`: the clients for other servers, whose connections are kept and shared.
//!
//! Corresponds to k8s.io/client-go/transport and its cache. Inside one process an address is looked up among the
//! services that are registered in the environment.

use super::answers::Answers;
use super::reference::{ServiceReference, SimulatedAddresses, Unresolved};
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

/// Number of servers whose clients are kept. When there are more, all are dropped and created again when needed.
const MAX_SERVERS: usize = 256;
/// Time limit for a connection that will be upgraded.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Interval between two reads of the nodes' addresses, which rarely change.
const NODES_REFRESH_INTERVAL: Duration = Duration::from_secs(10);
const USER_AGENT: &str = "kube-apiserver-orrery";
/// Budget for the responses of all webhooks. Decoded they take several times as much of the 512 MiB that a container of
/// the compose file has.
const WEBHOOK_ANSWERS_BYTES: usize = 64 << 20;
/// Largest response, which may be a list of converted objects.
/// Deviation: a larger answer of a webhook is refused, where Kubernetes reads it to its end.
const WEBHOOK_ANSWER_BYTES: usize = 32 << 20;

/// How a server proves its identity, and how this server proves its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trust {
    /// The authority that signs its certificate. Deviation: the machine's own authorities are not asked where none is
    /// given.
    pub ca_pem: Option<String>,
    pub insecure: bool,
    /// The name in its certificate. Empty: the host of its URL.
    pub server_name: String,
    /// Authenticate with the certificate of `--proxy-client-cert-file`.
    pub as_proxy: bool,
    /// Authenticate with these credentials instead.
    pub credentials: Option<Credentials>,
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    #[error(transparent)]
    Unresolved(#[from] Unresolved),
    /// The configuration is invalid.
    #[error("{0}")]
    Unusable(String),
    /// The server does not respond.
    #[error("{0}")]
    Unreachable(String),
}

/// The certificate, PEM, by which extension servers trust this server's headers about the user.
#[derive(Clone, Default)]
pub struct ProxyClient {
    pub cert_pem: Option<String>,
    pub key_pem: Option<String>,
}

/// The clients of one API server for other servers.
pub struct Clients {
    env: Env,
    random: Random,
    service_ranges: Vec<IpNet>,
    proxy_client: ProxyClient,
    answers: Answers,
    known: Mutex<BTreeMap<(String, Trust), Client>>,
    simulated: Mutex<Option<Addresses>>,
}

/// The simulated addresses at one time, when there were so many nodes.
struct Addresses {
    seen: Instant,
    nodes: usize,
    simulated: Arc<SimulatedAddresses>,
}

/// Decodes a `caBundle` to PEM.
pub fn ca_bundle(value: &Value) -> Option<String> {
    let bytes = BASE64.decode(value.as_str()?).ok()?;
    String::from_utf8(bytes).ok().filter(|pem| !pem.trim().is_empty())
}

impl Clients {
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

    /// Returns the reader for the responses of webhooks.
    pub fn answers(&self) -> &Answers {
        &self.answers
    }

    /// Returns the real address of a Service.
    pub fn resolve(&self, objects: &dyn Lookup, reference: &ServiceReference) -> Result<String, Unresolved> {
        reference.resolve(objects, || self.simulated(objects), &self.random)
    }

    /// Returns the simulated addresses, read from all nodes at intervals and whenever a node is added or removed.
    fn simulated(&self, objects: &dyn Lookup) -> Result<Arc<SimulatedAddresses>, Status> {
        let nodes = objects.list("", "nodes", "")?;
        let now = self.env.now();
        let mut known = self.simulated.lock();
        if let Some(known) = known.as_ref().filter(|k| k.nodes == nodes.len() && now - k.seen < NODES_REFRESH_INTERVAL)
        {
            return Ok(known.simulated.clone());
        }
        let simulated = Arc::new(SimulatedAddresses::of(&self.service_ranges, &nodes));
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

    /// Returns a client. Callers with the same server and the same trust share its connections.
    pub fn client(&self, authority: &str, trust: &Trust) -> Result<Client, CallError> {
        let key = (authority.to_owned(), trust.clone());
        if let Some(client) = self.known.lock().get(&key) {
            return Ok(client.clone());
        }
        let client = Client::connect(&self.env, &self.connection(authority, trust), USER_AGENT)
            .map_err(|error| CallError::Unusable(error.to_string()))?;
        let mut known = self.known.lock();
        if known.len() >= MAX_SERVERS {
            known.clear();
        }
        known.insert(key, client.clone());
        Ok(client)
    }

    /// Returns a dialer, for a connection that is not shared and that the response may take over.
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

/// Returns the error for a server that cannot be reached, worded as Go's clients word it.
pub fn unreachable(authority: &str, error: &client::Error) -> CallError {
    CallError::Unreachable(error.in_gos_words(authority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_bundle_is_base64_of_pem() {
        assert_eq!(ca_bundle(&json!("UEVN")), Some("PEM".to_owned()));
        assert_eq!(ca_bundle(&json!("")), None);
        assert_eq!(ca_bundle(&json!(null)), None);
    }
}
