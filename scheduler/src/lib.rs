//! The scheduler assigns a node to every pod.
//!
//! Corresponds to pkg/scheduler. Read first: `framework/src/cycle.rs`, then the plugins. `queue` orders the pods, `binding`
//! returns what to write, `extenders` asks HTTP services, and `scheduler` connects them.

// The process.
pub mod config;
pub mod flags;
mod reload;
pub mod scheduler;
pub mod operations;
pub mod metrics;

pub mod queue;
pub mod binding;
pub mod extenders;
mod pod_group_condition;
mod surroundings;

// What the crates below offer to plugins outside this repository.
pub use scheduler_explanation as explanation;
pub use scheduling_framework as framework;

pub use config::{Config, Settings};

use client::component::{Component, Error};
use client::{Client, Informers};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::lifecycle::Threads;
use component_base::zpages::ZPages;
use explanation::Attempts;
use framework::configuration::Configuration;
use framework::configuration::shown::configz;
use framework::{CycleExtender, Register};
use operations::{Inspection, pages};
use scheduler::Scheduler;
use std::sync::Arc;
use tokio::sync::watch;

/// Name and default port of kube-scheduler.
const COMPONENT: Component = Component { name: "scheduler", port: 10259, original: "kube-scheduler" };
/// Threads of the process. Cycles run one after the other, and each decision leads to a few small requests.
pub const THREADS: Threads = Threads::One;
/// Name of the Lease that the leader holds.
const LEASE: &str = "kube-scheduler";

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    run_with_plugins(config, env, Arc::new(|_, _| {})).await
}

/// Runs as a process, with plugins of another crate beside Kubernetes' own. SIGHUP reads the configuration file again,
/// and a changed script is read by itself.
pub async fn run_with_plugins(config: Config, env: Env, register: Register) -> Result<(), Error> {
    config.original.warn();
    let zpages = ZPages::of(&env, &config.original);
    let given = config.clone();
    let config = config.with_file()?;
    let client = COMPONENT.connect(&env, &config.client)?;
    reload::check(&config, &client, &register)?;
    let Config { client: options, serving, cert_dir, settings, .. } = config;
    let serving = COMPONENT.with_certificate(&env, serving, cert_dir.folder())?;
    let (sender, configuration) = watch::channel(Arc::new(settings.configuration.clone()));
    env.spawn(reload::follow_scripts(client.clone(), register.clone(), sender.clone()));
    env.spawn(reload::follow_hangups(given, client.clone(), register.clone(), sender));
    let (shown, election) = (configuration.clone(), settings.leader_election.clone());
    let inspection = Inspection::new(settings.explain_attempts);
    env.spawn(inspection.clone().follow_signals(env.clone()));
    let pages = HealthServer::new()
        .configz_from(move || configz(&shown.borrow(), &election, &options))
        .zpages(zpages)
        .pages(pages::router(inspection.clone(), env.clone()));
    COMPONENT.serve(&client, &serving, pages).await?;
    lead(client, settings, env, register, configuration, inspection).await
}

/// Runs inside another process, which gives the client: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    let inspection = Inspection::new(settings.explain_attempts);
    run_inspected(client, settings, env, inspection).await
}

/// Runs inside another process that receives every attempt.
pub async fn run_observed(
    client: Client,
    settings: Settings,
    env: Env,
    attempts: Arc<dyn Attempts>,
) -> Result<(), Error> {
    run_inspected(client, settings, env, Inspection::observed(attempts)).await
}

async fn run_inspected(client: Client, settings: Settings, env: Env, inspection: Arc<Inspection>) -> Result<(), Error> {
    let (sender, configuration) = watch::channel(Arc::new(settings.configuration.clone()));
    let register: Register = Arc::new(|_, _| {});
    env.spawn(reload::follow_scripts(client.in_env(&env), register.clone(), sender));
    lead(client, settings, env, register, configuration, inspection).await
}

/// Returns everything for which the profiles of a configuration cannot be made, such as plugins that do not exist. `client`
/// sends nothing.
pub fn problems(configuration: &Configuration, client: &Client) -> Vec<String> {
    let register: Register = Arc::new(|_, _| {});
    reload::problems(configuration, client, &register)
}

/// Runs on informers and a client of the caller, who models the API: no kubeconfig, no port, no leader election, and scripts
/// are read once. `decider` takes part in every cycle in place of the configured extenders, and `attempts` receives every attempt.
pub async fn run_on(
    informers: Informers,
    settings: Settings,
    decider: Option<Arc<dyn CycleExtender>>,
    attempts: Option<Arc<dyn Attempts>>,
    register: Register,
) -> Result<(), String> {
    let (_sender, mut configuration) = watch::channel(Arc::new(settings.configuration));
    let present = configuration.borrow_and_update().clone();
    let scheduler =
        Scheduler::new(&informers, &present, &register, attempts, decider).map_err(|errors| errors.join(", "))?;
    informers.start();
    if informers.synced().await {
        scheduler.run(configuration).await;
    }
    Ok(())
}

async fn lead(
    client: Client,
    settings: Settings,
    env: Env,
    register: Register,
    configuration: watch::Receiver<Arc<Configuration>>,
    inspection: Arc<Inspection>,
) -> Result<(), Error> {
    let schedule = |client| schedule(client, register, configuration, inspection);
    COMPONENT.lead(&client.in_env(&env), &settings.leader_election, LEASE, schedule).await
}

async fn schedule(
    client: Client,
    register: Register,
    mut configuration: watch::Receiver<Arc<Configuration>>,
    inspection: Arc<Inspection>,
) {
    let informers = Informers::new(&client);
    let present = configuration.borrow_and_update().clone();
    let scheduler = match Scheduler::new(&informers, &present, &register, inspection.attempts.clone(), None) {
        Ok(scheduler) => scheduler,
        Err(errors) => return tracing::error!("initializing profiles: {}", errors.join(", ")),
    };
    inspection.set(&scheduler);
    informers.start();
    if informers.synced().await {
        scheduler.run(configuration).await;
    }
}
