//! `orrery proxy-sim rules`: asks a running proxy-sim for the rules of one node and prints them.

use clap::Args;
use client::Client;
use component_base::env::Env;
use component_base::http::{Body, BodyError, read_all};
use component_base::kubeconfig::KubeconfigError;
use component_base::options::ClientOptions;
use std::io::Write;

/// The most that is read of the rules; no node has as many.
const MAX_RULES_BYTES: usize = 1 << 30;

/// The options of `rules`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// The node whose rules are shown
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// Address of proxy-sim; by default four ports above the API server of the kubeconfig, where `up` starts it
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub client: ClientOptions,
}

/// Why the rules cannot be printed.
#[derive(Debug, thiserror::Error)]
pub enum PrintError {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error("{server}: {source}")]
    Request { server: String, source: client::Error },
    #[error("{server}: {message}")]
    Refused { server: String, message: String },
    #[error("{server}: {source}")]
    Body { server: String, source: BodyError },
    #[error("{server}: no port in it to count from; give --server")]
    NoPort { server: String },
    #[error("--node {0:?}: not a node name")]
    Node(String),
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
}

/// Prints the rules as they are now.
pub async fn run(options: &Options, env: &Env) -> Result<(), PrintError> {
    let mut connection = options.client.connection()?;
    let server = match &options.server {
        Some(server) => server.clone(),
        None => default_server(&connection.server)?,
    };
    connection.server = server.clone();
    let failed = |source| PrintError::Request { server: server.clone(), source };
    let client = Client::connect(env, &connection, "orrery").map_err(failed)?;
    let request = http::Request::get(format!("/rules/{}", options.node)).body(Body::empty());
    let request = request.map_err(|_| PrintError::Node(options.node.clone()))?;
    let response = client.send(request).await.map_err(failed)?;
    let code = response.status();
    let text = read_all(response.into_body(), MAX_RULES_BYTES).await;
    let text = text.map_err(|source| PrintError::Body { server: server.clone(), source })?;
    if !code.is_success() {
        // A refusal is a Status, whose message is shown; any other body is shown as it is.
        let status: Option<proto::Status> = serde_json::from_slice(&text).ok();
        let words = status.map_or_else(|| String::from_utf8_lossy(&text).trim().to_owned(), |status| status.message);
        let message = format!("{code}: {words}");
        return Err(PrintError::Refused { server, message });
    }
    std::io::stdout().write_all(&text)?;
    Ok(())
}

/// Returns the address of proxy-sim in a cluster that `up` started: its port is four above the API server's.
fn default_server(server: &str) -> Result<String, PrintError> {
    let no_port = || PrintError::NoPort { server: server.to_owned() };
    let (host, port) = server.trim_end_matches('/').rsplit_once(':').ok_or_else(no_port)?;
    let port: u16 = port.parse().map_err(|_| no_port())?;
    Ok(format!("{host}:{}", port.checked_add(4).ok_or_else(no_port)?))
}

#[cfg(test)]
mod tests {
    use super::default_server;

    #[test]
    fn the_port_is_counted_from_the_api_server() {
        assert_eq!(default_server("https://127.0.0.1:6443").unwrap(), "https://127.0.0.1:6447");
        assert_eq!(default_server("https://[::1]:7000/").unwrap(), "https://[::1]:7004");
        assert!(default_server("https://example").is_err());
    }
}
