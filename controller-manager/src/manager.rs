//! Runs the manager: leads, starts the controllers that were asked for, and shows its health.
//!
//! Corresponds to Run in cmd/kube-controller-manager/app/controllermanager.go.

use crate::context::{Context, Running};
use crate::controllers::{Controller, UnknownController, selected};
use crate::options::{Config, Settings};
use client::delegated_auth::DelegatedAuth;
use client::leader::{LeadershipLost, identity};
use client::{Client, LeaderElection};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{OptionsError, ServingOptions, read_file};
use component_base::serving;
use component_base::tls::TlsError;
use futures::future::join_all;
use serde_json::json;
use std::sync::Arc;

/// Where kube-controller-manager serves.
const DEFAULT_PORT: u16 = 10257;
const LEASE: &str = "kube-controller-manager";
const LEASE_NAMESPACE: &str = "kube-system";

/// One clear line each.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Controllers(#[from] UnknownController),
    #[error("API server: {0}")]
    Client(#[from] client::Error),
    #[error(transparent)]
    Leadership(#[from] LeadershipLost),
}

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config { client, serving, root_ca_file, mut settings } = config;
    selected(&settings.controllers)?;
    let connection = client.connection()?;
    settings.root_ca_pem = match root_ca_file {
        Some(path) => Some(read_file("root-ca-file", &path)?),
        None => connection.ca_pem.clone(),
    };
    let client = Client::connect(&env, &connection, "controller-manager")?;
    if let Some(address) = serving.address(DEFAULT_PORT) {
        let tls = serving.tls()?;
        let listener = ServingOptions::listen(address).await?;
        let service = health(&client, &settings).service(&env);
        let serving_env = env.clone();
        env.spawn(async move {
            if let Err(error) = serving::serve(&serving_env, listener, tls, service).await {
                tracing::error!(%error, "the port of the controller manager is not served");
                serving_env.shutdown().cancel();
            }
        });
    }
    run_with(client, settings, env).await
}

fn health(client: &Client, settings: &Settings) -> HealthServer {
    let configz = json!({
        "controllers": settings.controllers,
        "leaderElect": settings.leader_elect,
        "clusterCIDR": settings.cluster_cidr.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "nodeMonitorGracePeriodSeconds": settings.node_monitor_grace_period.as_secs(),
    });
    HealthServer::new().configz(json!({"controllermanager": configz})).gate(Arc::new(DelegatedAuth::new(client)))
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    let controllers = selected(&settings.controllers)?;
    let client = client.in_env(&env);
    if !settings.leader_elect {
        lead(env, client, settings, controllers).await;
        return Ok(());
    }
    let election = LeaderElection {
        lease_duration: settings.leader_elect_lease_duration,
        renew_deadline: settings.leader_elect_renew_deadline,
        retry_period: settings.leader_elect_retry_period,
        ..LeaderElection::new(LEASE, LEASE_NAMESPACE, &identity(&env, "controller-manager"))
    };
    let leader = client.clone();
    election.run(&env, &client, |leading| lead(leading, leader, settings, controllers)).await?;
    Ok(())
}

/// Starts every controller, then the informers that they registered with, and lets them work until shutdown.
async fn lead(env: Env, client: Client, settings: Settings, controllers: Vec<&'static Controller>) {
    let context = Context::new(&env, &client, settings);
    let mut running: Vec<Running> = Vec::new();
    for controller in controllers {
        tracing::info!(controller = controller.name, "starting");
        running.push((controller.start)(&context));
    }
    context.informers.start();
    if !context.informers.synced().await {
        return;
    }
    let tasks: Vec<_> = running.into_iter().map(|controller| env.spawn(controller)).collect();
    join_all(tasks).await;
}
