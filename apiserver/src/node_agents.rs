//! `NodeAgents`: connects to the agents of nodes, which serve logs, commands, forwarded ports and pages of their own.
//!
//! Corresponds to pkg/kubelet/client. The addresses of a node are simulated, and nothing connects to them. The agent
//! writes the address on which it listens as an annotation of its node; without the annotation it cannot be reached.

use axum::body::Body;
use clap::Args;
use component_base::dial::{AGENT_ENDPOINT, DialError, Dialer};
use component_base::duration::parse_duration;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use component_base::options::{OptionsError, read_file};
use futures::StreamExt;
use http::{HeaderMap, HeaderValue, Method, Request, Response, header};
use proto::Status;
use serde_json::Value;
use std::convert::Infallible;
use std::future::ready;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use strategy::object_meta;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Limit of concurrent streams through one server. A further request gets 429.
const MAX_STREAMS: usize = 1_000;
/// Seconds after which a refused client may try again.
const RETRY_AFTER_S: u32 = 1;

// The flags of connections to node agents. No doc comment, as for `Config`.
#[derive(Args, Clone, Debug)]
pub struct NodeAgentOptions {
    /// Authority of the certificates of node agents (PEM); they are not checked where none is given
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Certificate (PEM) to show to node agents
    #[arg(long, value_name = "FILE")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Key (PEM) of that certificate
    #[arg(long, value_name = "FILE")]
    pub kubelet_client_key: Option<PathBuf>,
    /// How long a connection to a node agent may take
    #[arg(long, default_value = "5s", value_name = "DURATION", value_parser = parse_duration)]
    pub kubelet_timeout: Duration,
}

/// Connects to node agents, and limits the streams from them.
pub struct NodeAgents {
    dialer: Dialer,
    streams: Arc<Semaphore>,
    /// Cancelled when this server shuts down.
    shutdown: CancellationToken,
}

/// The agent of a node, and the address on which it listens.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    node: String,
    endpoint: String,
}

/// Permission for one stream, held as long as the stream lasts.
pub type StreamPermit = OwnedSemaphorePermit;

impl NodeAgents {
    pub fn new(env: &Env, options: &NodeAgentOptions) -> Result<Self, OptionsError> {
        const CERTIFICATE: &str = "kubelet-client-certificate";
        let read = |flag, path: &Option<PathBuf>| path.as_ref().map(|path| read_file(flag, path)).transpose();
        let ca_pem = read("kubelet-certificate-authority", &options.kubelet_certificate_authority)?;
        let client_cert_pem = read(CERTIFICATE, &options.kubelet_client_certificate)?;
        let client_key_pem = read("kubelet-client-key", &options.kubelet_client_key)?;
        let invalid = |message: String| OptionsError::Invalid { flag: CERTIFICATE, message };
        if client_cert_pem.is_some() != client_key_pem.is_some() {
            return Err(invalid("belongs together with --kubelet-client-key, and one is missing".to_owned()));
        }
        let insecure = ca_pem.is_none();
        let identity = Connection { ca_pem, client_cert_pem, client_key_pem, insecure, ..Connection::default() };
        let dialer = Dialer::new(env, &identity, options.kubelet_timeout);
        let dialer = dialer.map_err(|error| invalid(error.to_string()))?;
        let shutdown = env.shutdown().clone();
        Ok(Self { dialer, streams: Arc::new(Semaphore::new(MAX_STREAMS)), shutdown })
    }

    /// Permits one more stream, or returns 429.
    pub fn permit(&self) -> Result<StreamPermit, Status> {
        let busy = || Status::too_many_requests("Too many streams, please try again later.", RETRY_AFTER_S);
        self.streams.clone().try_acquire_owned().map_err(|_| busy())
    }

    /// Wraps the body that an agent sends. It ends with the agent or with this server, and holds its permit until then.
    pub fn streamed(&self, body: Body, permit: StreamPermit) -> Body {
        let end = self.shutdown.clone().cancelled_owned();
        let chunks = body.into_data_stream().take_until(end).take_while(|chunk| ready(chunk.is_ok()));
        Body::from_stream(chunks.filter_map(move |chunk| {
            let _held = &permit;
            ready(chunk.ok().map(Ok::<_, Infallible>))
        }))
    }

    /// Sends a request to an agent. The caller adds to an error what the request was for.
    pub async fn send(
        &self,
        agent: &Agent,
        method: Method,
        path: &str,
        mut headers: HeaderMap,
        body: Body,
    ) -> Result<Response<Body>, DialError> {
        // One process may simulate many nodes: the Host header names the node.
        let host = HeaderValue::from_str(&agent.node);
        headers.insert(header::HOST, host.map_err(|error| DialError::Lost(error.to_string()))?);
        let mut request = Request::builder().method(method).uri(path).body(body);
        if let Ok(request) = &mut request {
            *request.headers_mut() = headers;
        }
        self.dialer.request(&agent.endpoint, request.map_err(|error| DialError::Lost(error.to_string()))?).await
    }
}

impl Agent {
    /// Reads the address of the agent from its Node. Returns 503 if the node does not have it.
    pub fn of(node: &Value) -> Result<Self, Status> {
        let name = object_meta::text(node, "name").to_owned();
        match node["metadata"]["annotations"][AGENT_ENDPOINT].as_str() {
            Some(endpoint) if !endpoint.is_empty() => Ok(Self { node: name, endpoint: endpoint.to_owned() }),
            _ => Err(Status::unavailable(format!(
                "the agent of node {name:?} cannot be reached: the node has no annotation {AGENT_ENDPOINT}, and \
                 nothing connects to its simulated addresses"
            ))),
        }
    }

    /// Returns the URL of a page of the agent, for error messages.
    pub fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_agent_that_says_where_it_serves_can_be_reached() {
        let mut node = json!({"metadata": {"name": "n"}, "status": {"addresses": [{"address": "172.18.0.2"}]}});
        let refused = Agent::of(&node).unwrap_err();
        assert_eq!(refused.code, 503);
        assert!(refused.message.starts_with(r#"the agent of node "n" cannot be reached"#), "{}", refused.message);
        node["metadata"]["annotations"] = json!({AGENT_ENDPOINT: "127.0.0.1:7"});
        assert_eq!(Agent::of(&node).unwrap().url("/pods"), "https://127.0.0.1:7/pods");
    }
}
