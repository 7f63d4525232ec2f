//! Simulated nodes: one process registers many, keeps their leases and statuses, and runs their pods.
//!
//! Corresponds to pkg/kubelet. Machines and containers are simulated; everything that the API server sees of them
//! is what a kubelet would write. The modules stand floor by floor: each one uses only those above it. Read
//! `pod_life::lifecycle` first, then `fleet`.

// The command line, and how a node gets its certificate.
pub mod certificate;
pub mod flags;
pub mod config_file;
pub mod config;

// What files and ConfigMaps say about the machines. Pure.
pub mod documents;
pub mod template;
pub mod machines;

// One node: its machine, its Node and Lease objects, the addresses of its pods. No IO.
pub mod machine;
pub mod plan;
pub mod node;
pub mod lease;
pub mod addresses;
pub mod devices;

// Which pod goes when the node runs out of something. Pure.
pub mod eviction;
pub mod image_gc;

// Pods that a node has from elsewhere than the API server.
pub mod static_pods;

// The processes of containers, and the objects that they refer to.
pub mod objects;
pub mod volumes;
pub mod network;
pub mod runtime;

// How users change the behaviour of pods and nodes.
pub mod behaviour;

// All nodes of the process: the work queues, and what is written to the API server.
pub mod fleet;

// What a node's agent serves, and the usage of all nodes.
pub mod agent;
pub mod metrics_api;

use crate::certificate::Bootstrap;
pub use crate::config::{Config, Settings};
use crate::eviction::manager::EvictionSettings;
use crate::fleet::Fleet;
use crate::runtime::gateway;
use client::Client;
use client::ConnectError;
use client::component::{Component, Error};
use client::delegated_auth::DelegatedAuth;
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::kubeconfig;
use component_base::options::ServingOptions;
use component_base::zpages::ZPages;
use http::request::Parts;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, Ipv6Addr};

const COMPONENT: Component = Component { name: "kubelet-sim", port: config::KUBELET_PORT, original: "kubelet" };

/// Runs as a process until the environment shuts down.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    config.original.warn();
    let version = config.original.version().to_owned();
    let zpages = ZPages::of(&env, &config.original);
    let Config { client, mut serving, mut settings, advertise_endpoint, front_proxy, bootstrapping, .. } =
        config.with_file()?;
    settings.templates = template::file::read(&settings.node_template_files)?;
    settings.failure_models = machines::failure_file::read(&settings.failure_model_files)?;
    settings.check()?;
    settings.stages = behaviour::files::read(&settings.stage_files)?;
    EvictionSettings::of(&settings)?;
    settings.version = version;
    let cert_dir = bootstrapping.cert_dir;
    if let Some(path) = bootstrapping.bootstrap_kubeconfig {
        let connection = kubeconfig::read(&path).map_err(ConnectError::from)?;
        // A connection that cannot work is reported at the start, not by every node later.
        Client::connect(&env, &connection, COMPONENT.name).map_err(ConnectError::from)?;
        let rotates = bootstrapping.rotate_certificates;
        settings.bootstrap = Some(Bootstrap { connection, rotates, cert_dir: Some(cert_dir.clone()) });
    }
    serving.proxy_ca_file = front_proxy.requestheader_client_ca_file.clone();
    settings.port = serving.address(COMPONENT.port).map_or(0, |address| address.port());
    let anonymous = gateway::anonymous(&env, &client.connection().map_err(ConnectError::from)?);
    let client = COMPONENT.connect(&env, &client)?;
    let serving = COMPONENT.with_certificate(&env, serving, Some(&cert_dir))?;
    let configz = json!({"nodes": plan::node_count(&settings), "nodeNamePrefix": settings.node_name_prefix});
    settings.agent_endpoint = advertise_endpoint.or_else(|| own_endpoint(&serving));
    let (fleet, informers) = Fleet::new(client.in_env(&env), settings, env);
    if let Some(anonymous) = anonymous {
        fleet.open_gateway(anonymous);
    }
    let pages = agent::routes::routes(fleet.clone()).merge(metrics_server::routes::routes(fleet.clone()));
    let pages = HealthServer::new().configz(json!({"kubeletsim": configz})).zpages(zpages).pages(pages);
    let gate = DelegatedAuth::new(&client).asking(questions).trusting(front_proxy.trusted());
    COMPONENT.serve_behind(gate, &client, &serving, pages).await?;
    fleet.start(informers).await;
    Ok(())
}

/// Returns the permissions that a request needs.
fn questions(parts: &Parts) -> Vec<Value> {
    metrics_server::access::questions(parts).unwrap_or_else(|| agent::access::questions(parts))
}

/// Returns the address at which this machine reaches the port; `None` when nothing is served.
fn own_endpoint(serving: &ServingOptions) -> Option<String> {
    let mut address = serving.address(COMPONENT.port)?;
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
    }
    Some(address.to_string())
}

/// Runs inside another process, with its client: without a kubeconfig and without a port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    Fleet::run(client.in_env(&env), settings, env).await;
    Ok(())
}
