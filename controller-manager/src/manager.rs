//! Runs the manager: takes part in leader election, starts the selected controllers, and serves health and metrics.
//!
//! Corresponds to Run in cmd/kube-controller-manager/app/controllermanager.go.

use crate::controllers::{CONTROLLERS, UnknownController, selected};
use client::Client;
use client::component::{self, Component};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::json_web_token::SigningKey;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{OptionsError, read_file};
use component_base::private_key::PrivateKeyError;
use controller_base::context::{Context, Running};
use controller_base::descriptor::ControllerDescriptor;
use controller_base::options::{Config, Settings};
use controller_base::signers::options::SignersError;
use futures::future::join_all;
use serde_json::json;

/// Name and default port of kube-controller-manager.
const COMPONENT: Component = Component { name: "controller-manager", port: 10257, original: "kube-controller-manager" };
/// Name of the Lease that the leader holds.
const LEASE: &str = "kube-controller-manager";

/// An error that ends the manager, as one line.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Component(#[from] component::Error),
    #[error(transparent)]
    Kubeconfig(#[from] KubeconfigError),
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Signers(#[from] SignersError),
    #[error(transparent)]
    Controllers(#[from] UnknownController),
}

/// Runs as a process until the environment shuts down or leadership is lost.
pub async fn run(config: Config, env: Env) -> Result<(), Error> {
    let Config {
        original,
        client: connection,
        serving,
        cert_dir,
        root_ca_file,
        service_account_private_key_file,
        mut settings,
    } = config;
    original.warn();
    selected(CONTROLLERS, &settings.controllers)?;
    settings.signers = settings.signing.signers()?;
    let client = COMPONENT.connect(&env, &connection)?;
    settings.root_ca_pem = match root_ca_file {
        Some(path) => Some(read_file("root-ca-file", &path)?),
        None => connection.connection()?.ca_pem,
    };
    const KEY: &str = "service-account-private-key-file";
    if let Some(path) = service_account_private_key_file {
        let key = SigningKey::from_pem(&read_file(KEY, &path)?);
        let unusable = |error: PrivateKeyError| OptionsError::Invalid { flag: KEY, message: error.to_string() };
        settings.service_account_key = Some(key.map_err(unusable)?);
    }
    let serving = COMPONENT.with_certificate(&env, serving, cert_dir.folder())?;
    COMPONENT.serve(&client, &serving, health(&settings)).await?;
    run_with(client, settings, env).await
}

fn health(settings: &Settings) -> HealthServer {
    let configz = json!({
        "controllers": settings.controllers,
        "leaderElect": settings.leader_election.leader_elect,
        "clusterCIDR": settings.cluster_cidr.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "nodeMonitorGracePeriodSeconds": settings.node_monitor_grace_period.as_secs(),
    });
    HealthServer::new().configz(json!({"controllermanager": configz}))
}

/// Runs inside another process, which gives the client: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    run_controllers(COMPONENT, LEASE, CONTROLLERS, client, settings, env).await
}

/// Runs the selected controllers of a table while this process is the leader.
pub async fn run_controllers(
    component: Component,
    lease: &str,
    table: &'static [ControllerDescriptor],
    client: Client,
    settings: Settings,
    env: Env,
) -> Result<(), Error> {
    let controllers = selected(table, &settings.controllers)?;
    let election = settings.leader_election.clone();
    let work = |client| lead(client, settings, controllers);
    Ok(component.lead(&client.in_env(&env), &election, lease, work).await?)
}

/// Starts every controller, then the informers that they registered with. Returns on shutdown.
async fn lead(client: Client, settings: Settings, controllers: Vec<&'static ControllerDescriptor>) {
    let context = Context::new(&client, settings);
    let mut running: Vec<Running> = Vec::new();
    for controller in controllers {
        tracing::info!(controller = controller.name, "starting");
        running.push(controller.start(&context));
    }
    context.informers.start();
    if !context.informers.synced().await {
        return;
    }
    let tasks: Vec<_> = running.into_iter().map(|controller| context.env.spawn(controller)).collect();
    join_all(tasks).await;
}
