//! Runs the manager: takes part in leader election, starts the selected controllers, and serves health and metrics.
//!
//! Corresponds to Run in cmd/kube-controller-manager/app/controllermanager.go.

use crate::configz;
use crate::controllers::{CONTROLLERS, UnknownController, selected};
use client::Client;
use client::component::{self, Component};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::json_web_token::SigningKey;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{LeaderElectionOptions, OptionsError, read_file};
use component_base::private_key::PrivateKeyError;
use controller_base::context::{Context, Running};
use controller_base::descriptor::ControllerDescriptor;
use controller_base::leader_migration::Leadership;
use controller_base::options::{Config, Settings};
use controller_base::signers::options::SignersError;
use futures::future::join_all;
use std::sync::{Arc, OnceLock};

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
    let configz = configz::page(&original, &settings)?;
    selected(CONTROLLERS, &settings.controllers)?;
    settings.signers = settings.signing.signers()?;
    settings.feature_gates = original.gate_values().clone();
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
    COMPONENT.serve(&client, &serving, HealthServer::new().configz(configz)).await?;
    run_with(client, settings, env).await
}

/// Runs inside another process, which gives the client: no kubeconfig, no port.
pub async fn run_with(client: Client, settings: Settings, env: Env) -> Result<(), Error> {
    run_controllers(COMPONENT, LEASE, CONTROLLERS, client, settings, env).await
}

/// Runs the selected controllers of a table while this process is the leader. Controllers that move to another manager
/// run while it also holds the migration's lease; losing either ends the process.
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
    let migration = settings.leader_migration.migration()?.filter(|_| election.leader_elect);
    let client = client.in_env(&env);
    let Some(migration) = migration else {
        return Ok(component
            .lead(&client, &election, lease, |client| lead(component, client, settings, controllers))
            .await?);
    };
    let under = |wanted: Leadership| -> Vec<&'static ControllerDescriptor> {
        let leadership =
            |row: &ControllerDescriptor| migration.leadership(component.original, |name| row.is_named(name));
        controllers.iter().copied().filter(|row| leadership(row) == wanted).collect()
    };
    let (own, moving) = (under(Leadership::Own), under(Leadership::Migration));
    let shared =
        LeaderElectionOptions { leader_elect_resource_name: Some(migration.leader_name.clone()), ..election.clone() };
    let lost: Arc<OnceLock<component::Error>> = Arc::default();
    let loss = lost.clone();
    let work = |client: Client| async move {
        let moved = async {
            let settings = settings.clone();
            let work = |client| lead(component, client, settings, moving);
            component.lead(&client, &shared, &migration.leader_name, work).await
        };
        tokio::select! {
            biased;
            () = lead(component, client.clone(), settings.clone(), own) => {}
            ended = moved => drop(ended.map_err(|error| loss.set(error))),
        }
    };
    component.lead(&client, &election, lease, work).await?;
    match Arc::into_inner(lost).and_then(OnceLock::into_inner) {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Starts the informers that the controllers register with, then every controller. Returns on shutdown.
async fn lead(
    component: Component,
    client: Client,
    settings: Settings,
    controllers: Vec<&'static ControllerDescriptor>,
) {
    let context = Context::new(&client, settings);
    let mut running: Vec<(&ControllerDescriptor, Running)> = Vec::new();
    for controller in controllers {
        tracing::info!(controller = controller.name, "starting");
        running.push((controller, controller.start(&context)));
    }
    context.informers.start();
    if !context.informers.synced().await {
        return;
    }
    let help = "Indicates where instances of a controller are currently running";
    let runs = context.env.metrics().gauges("running_managed_controllers", help);
    let mut tasks = Vec::new();
    for (row, controller) in running {
        let runs =
            runs.get_or_create_owned(&vec![("manager", component.original.to_owned()), ("name", row.name.to_owned())]);
        tasks.push(context.env.spawn(async move {
            runs.set(1);
            controller.await;
            runs.set(0);
        }));
        let pause = context.settings.controller_start_interval;
        if pause.is_zero() {
            continue;
        }
        tokio::select! {
            biased;
            () = context.env.shutdown().cancelled() => break,
            () = context.env.sleep(pause) => {}
        }
    }
    join_all(tasks).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use client_testing::FakeServer;
    use std::fs;
    use std::time::Duration;

    /// Runs the manager of this name for ten seconds with a migration of node-ipam. Returns the leases that it holds then.
    async fn leases_of(original: &'static str) -> Vec<String> {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("migration.yaml");
        let leaders = "[{name: node-ipam-controller, component: kube-controller-manager}]";
        let head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";
        fs::write(&file, format!("{head}leaderName: moving\ncontrollerLeaders: {leaders}\n")).unwrap();
        let controllers = vec!["namespace-controller".to_owned(), "node-ipam-controller".to_owned()];
        let mut settings = Settings { controllers, ..Settings::default() };
        settings.leader_migration.enable_leader_migration = true;
        settings.leader_migration.leader_migration_config = Some(file);
        let component = Component { original, ..COMPONENT };
        let running = env.child();
        let manager = run_controllers(component, LEASE, CONTROLLERS, client, settings, running.clone());
        let observer = async {
            env.sleep(Duration::from_secs(10)).await;
            let leases = server.list("leases.coordination.k8s.io");
            running.shutdown().cancel();
            leases.iter().map(|lease| lease["metadata"]["name"].as_str().unwrap().to_owned()).collect()
        };
        let (ended, leases) = futures::join!(manager, observer);
        ended.unwrap();
        env.drain().await;
        leases
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_that_moves_runs_under_the_lease_that_both_managers_share() {
        assert_eq!(leases_of("kube-controller-manager").await, ["kube-controller-manager", "moving"]);
        // The other manager holds the lease alike, and runs nothing under it, as long as the file names the first.
        assert_eq!(leases_of("cloud-controller-manager").await, ["kube-controller-manager", "moving"]);
    }
}
