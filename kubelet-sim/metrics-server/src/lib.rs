//! `metrics.k8s.io`: the usage of nodes and pods, for `kubectl top` and autoscalers.
//!
//! Corresponds to sigs.k8s.io/metrics-server. A kubelet-sim that simulates all nodes serves the group itself. Where each node has
//! a process of its own, a metrics-server asks all of them. Read `answers` (what the group says), `routes` (who asks for it), then
//! `scraper` (where the measurements come from).

// The group: permissions, documents, objects.
pub mod access;
pub mod discovery;
pub mod answers;
pub mod routes;

// The measurements of nodes.
pub mod summary;
pub mod scraper;

// The program.
pub mod register;
pub mod config;

pub use config::Config;

use client::component::{self, Component};
use client::delegated_auth::{DelegatedAuth, path_question};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use http::request::Parts;
use scraper::Scraper;
use serde_json::Value;

const COMPONENT: Component = Component { name: "metrics-server", port: 10250, original: "metrics-server" };

/// Why the process ends; each error is one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Component(#[from] component::Error),
    #[error("--metric-resolution: must be at least 10s")]
    Resolution,
}

/// Measures and serves until the environment shuts down. `register` makes the group known to a cluster.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config { client, mut serving, front_proxy, metric_resolution } = config;
    if metric_resolution < config::MIN_RESOLUTION {
        return Err(Error::Resolution);
    }
    serving.proxy_ca_file = front_proxy.requestheader_client_ca_file.clone();
    let client = COMPONENT.connect(&env, &client)?;
    let serving = COMPONENT.with_certificate(&env, serving, None)?;
    let scraper = Scraper::new(&client);
    let gate = DelegatedAuth::new(&client).asking(questions).trusting(front_proxy.trusted());
    let pages = HealthServer::new().pages(routes::routes(scraper.clone()));
    COMPONENT.serve_behind(gate, &client, &serving, pages).await?;
    scraper.run(metric_resolution).await;
    Ok(())
}

/// Returns the permissions that a request needs.
fn questions(parts: &Parts) -> Vec<Value> {
    access::questions(parts).unwrap_or_else(|| path_question(parts))
}
