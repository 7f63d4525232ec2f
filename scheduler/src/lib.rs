//! The scheduler: gives every pod a node.
//!
//! Corresponds to pkg/scheduler. Read first: `cycle`, then `framework` and the plugins; `queue` and `cache` feed the
//! cycle, `binding` says what is written, and `scheduler` ties them together.

// How it runs.
pub mod config;
pub mod scheduler;

// One decision.
pub mod cycle;
pub mod framework;
pub mod plugins;
pub mod binding;

// What feeds it.
pub mod queue;
pub mod cache;
pub mod pod_info;
pub mod resources;
pub mod node_selector;

#[cfg(test)]
mod fixture;

pub use config::{Config, Settings};

use client::delegated_auth::DelegatedAuth;
use client::leader::{LeadershipLost, identity};
use client::{Client, Informers, LeaderElection};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{OptionsError, ServingOptions};
use component_base::serving;
use component_base::tls::TlsError;
use scheduler::Scheduler;
use serde_json::json;
use std::sync::Arc;

/// Where kube-scheduler serves.
const DEFAULT_PORT: u16 = 10259;
const LEASE: &str = "kube-scheduler";
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
    #[error("API server: {0}")]
    Client(#[from] client::Error),
    #[error(transparent)]
    Leadership(#[from] LeadershipLost),
}

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config { client, serving, settings } = config;
    let client = Client::connect(&env, &client.connection()?, "scheduler")?;
    if let Some(address) = serving.address(DEFAULT_PORT) {
        let tls = serving.tls()?;
        let listener = ServingOptions::listen(address).await?;
        let configz = json!({"leaderElect": settings.leader_elect, "schedulerName": settings.scheduler_name});
        let health = HealthServer::new().configz(json!({"scheduler": configz}));
        let service = health.gate(Arc::new(DelegatedAuth::new(&client))).service(&env);
        let serving_env = env.clone();
        env.spawn(async move {
            if let Err(error) = serving::serve(&serving_env, listener, tls, service).await {
                tracing::error!(%error, "the port of the scheduler is not served");
                serving_env.shutdown().cancel();
            }
        });
    }
    run_with(client, settings, env).await
}

/// Runs inside somebody else's process: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    let client = client.in_env(&env);
    if !settings.leader_elect {
        lead(env, client, settings).await;
        return Ok(());
    }
    let election = LeaderElection::new(LEASE, LEASE_NAMESPACE, &identity(&env, "scheduler"));
    let leader = client.clone();
    election.run(&env, &client, |leading| lead(leading, leader, settings)).await?;
    Ok(())
}

async fn lead(env: Env, client: Client, settings: Settings) {
    let client = client.in_env(&env);
    let informers = Informers::new(&client);
    let scheduler = Scheduler::new(&client, &settings, &env, &informers);
    informers.start();
    if informers.synced().await {
        scheduler.run().await;
    }
}
