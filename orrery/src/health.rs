//! `orrery health URL`: checks a component's health, for machines without another HTTP client.

use clap::Args;
use client::Client;
use client::request::Call;
use component_base::env::Env;
use component_base::kubeconfig::Connection;
use http::{Method, Uri};
use std::path::PathBuf;
use std::time::Duration;

/// Time that a component gets to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);

/// Options of `orrery health`.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// What to ask, for example https://localhost:6443/readyz
    pub url: Uri,
    /// The authority (PEM) of the component's certificate
    #[arg(long, value_name = "FILE")]
    pub ca_file: PathBuf,
}

/// The reason why a component is not healthy, in one line.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    #[error("--ca-file: {}: {source}", path.display())]
    Authority { path: PathBuf, source: std::io::Error },
    #[error("{0}: not the URL of a page")]
    Url(Uri),
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error("no answer after {ANSWER_LIMIT:?}")]
    Silent,
}

/// Succeeds if the component answers that it is healthy.
pub async fn run(options: Options, env: Env) -> Result<(), HealthError> {
    let Options { url, ca_file } = options;
    let ca_pem =
        std::fs::read_to_string(&ca_file).map_err(|source| HealthError::Authority { path: ca_file, source })?;
    let (Some(scheme), Some(authority)) = (url.scheme(), url.authority()) else { return Err(HealthError::Url(url)) };
    let connection =
        Connection { server: format!("{scheme}://{authority}"), ca_pem: Some(ca_pem), ..Connection::default() };
    let client = Client::connect(&env, &connection, "orrery-health")?;
    let page = url.path_and_query().map_or("/", |page| page.as_str());
    let call = Call::new(Method::GET, page);
    let answer = env.timeout(ANSWER_LIMIT, client.call(&call)).await;
    answer.map_err(|_| HealthError::Silent)?.map(drop).map_err(HealthError::from)
}
