//! The scheduler assigns a node to every pod.
//!
//! Corresponds to pkg/scheduler. Read first: `cycle`, then `framework` and the plugins. `queue` and `cache` are the
//! input of a cycle, `binding` returns what to write, and `scheduler` connects them.

// The process.
pub mod config;
pub mod config_file;
pub mod flags;
pub mod scheduler;

// One scheduling decision.
pub mod cycle;
pub mod framework;
pub mod plugins;
pub mod binding;

// The input of a decision.
pub mod queue;
pub mod cache;
pub mod pod_info;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod oracle;

pub use config::{Config, Settings};

use client::component::{Component, Error};
use client::{Client, Informers};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use scheduler::Scheduler;
use serde_json::json;

/// Name and default port of kube-scheduler.
const COMPONENT: Component = Component { name: "scheduler", port: 10259, original: "kube-scheduler" };
/// Name of the Lease that the leader holds.
const LEASE: &str = "kube-scheduler";

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    config.original.warn();
    let Config { client, serving, cert_dir, settings, .. } = config.with_file()?;
    let client = COMPONENT.connect(&env, &client)?;
    let serving = COMPONENT.with_certificate(&env, serving, cert_dir.folder())?;
    let leader_elect = settings.leader_election.leader_elect;
    let configz = json!({"leaderElect": leader_elect, "schedulerName": settings.scheduler_name});
    COMPONENT.serve(&client, &serving, HealthServer::new().configz(json!({"scheduler": configz}))).await?;
    run_with(client, settings, env).await
}

/// Runs inside another process, which gives the client: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    let election = settings.leader_election.clone();
    COMPONENT.lead(&client.in_env(&env), &election, LEASE, |client| lead(client, settings)).await
}

async fn lead(client: Client, settings: Settings) {
    let informers = Informers::new(&client);
    let scheduler = Scheduler::new(&client, &settings, client.env(), &informers);
    informers.start();
    if informers.synced().await {
        scheduler.run().await;
    }
}
