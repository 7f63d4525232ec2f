//! Runs the manager: takes part in leader election, starts the selected controllers, and serves health and metrics.
//!
//! Corresponds to Run in cmd/kube-controller-manager/app/controllermanager.go.

use crate::configz;
use crate::controllers::CONTROLLERS;
use crate::selection::{UnknownController, selected};
use client::Client;
use client::component::{self, Component};
use component_base::env::Env;
use component_base::health_server::HealthServer;
use component_base::json_web_token::SigningKey;
use component_base::kubeconfig::KubeconfigError;
use component_base::options::{LeaderElectionOptions, OptionsError, read_file};
use component_base::private_key::PrivateKeyError;
use component_base::zpages::ZPages;
use controller_base::context::{Context, Running};
use controller_base::descriptor::{ControllerDescriptor, find_served};
use controller_base::leader_migration::{LeaderMigration, Leadership};
use controller_base::options::{Config, Settings};
use controller_base::signers::options::SignersError;
use futures::future::join_all;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

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
    let pages = HealthServer::new().configz(configz).zpages(ZPages::of(&env, &original));
    COMPONENT.serve(&client, &serving, pages).await?;
    run_with(client, settings, env).await
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
    let migration = settings.leader_migration.migration()?.filter(|_| election.leader_elect);
    let client = client.in_env(&env);
    match migration {
        Some(migration) => lead_with_migration(component, lease, controllers, client, settings, migration).await,
        None => {
            let work = |client| lead(component, client, settings, controllers);
            Ok(component.lead(&client, &election, lease, work).await?)
        }
    }
}

/// Runs controllers that move to another manager while this process also holds the migration's lease. Losing either lease
/// ends the process.
async fn lead_with_migration(
    component: Component,
    lease: &str,
    controllers: Vec<&'static ControllerDescriptor>,
    client: Client,
    settings: Settings,
    migration: LeaderMigration,
) -> Result<(), Error> {
    let under = |wanted: Leadership| -> Vec<&'static ControllerDescriptor> {
        let leadership =
            |row: &ControllerDescriptor| migration.leadership(component.original, |name| row.is_named(name));
        controllers.iter().copied().filter(|row| leadership(row) == wanted).collect()
    };
    let (own, moving) = (under(Leadership::Own), under(Leadership::Migration));
    let election = settings.leader_election.clone();
    let shared =
        LeaderElectionOptions { leader_elect_resource_name: Some(migration.leader_name.clone()), ..election.clone() };
    let lost: Arc<Mutex<Option<component::Error>>> = Arc::default();
    let loss = lost.clone();
    let work = |client: Client| async move {
        let moving_settings = settings.clone();
        let moved = |client| lead(component, client, moving_settings, moving);
        tokio::select! {
            biased;
            () = lead(component, client.clone(), settings, own) => {}
            ended = component.lead(&client, &shared, &migration.leader_name, moved) => *loss.lock() = ended.err(),
        }
    };
    component.lead(&client, &election, lease, work).await?;
    let lost = lost.lock().take();
    lost.map_or(Ok(()), |error| Err(error.into()))
}

/// Starts the informers that the controllers register with, then every controller. Returns on shutdown.
async fn lead(
    component: Component,
    client: Client,
    settings: Settings,
    controllers: Vec<&'static ControllerDescriptor>,
) {
    // An environment of the controllers' own, so that the wait for their end has a limit.
    let env = client.env().child();
    let mut context = Context::new(&client.in_env(&env), settings);
    find_served(&mut context, &controllers).await;
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
    let names: Arc<Mutex<BTreeSet<&str>>> = Arc::default();
    for (row, controller) in running {
        let names = names.clone();
        names.lock().insert(row.name);
        let runs =
            runs.get_or_create_owned(&vec![("manager", component.original.to_owned()), ("name", row.name.to_owned())]);
        tasks.push(context.env.spawn(async move {
            runs.set(1);
            controller.await;
            runs.set(0);
            names.lock().remove(row.name);
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
    let ended = async {
        join_all(tasks).await;
        env.drain().await;
    };
    let limit = context.settings.controller_shutdown_timeout;
    let late = async {
        env.shutdown().cancelled().await;
        env.sleep(limit).await;
    };
    tokio::select! {
        biased;
        () = ended => {}
        () = late => tracing::warn!(running = ?names.lock(), ?limit, "controllers have not stopped in time"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client_testing::FakeServer;
    use proto::kinds::api::coordination::v1::Lease;
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    /// Settings with a migration of node-ipam, which kube-controller-manager still runs.
    fn migrating(folder: &Path) -> Settings {
        let file = folder.join("migration.yaml");
        let leaders = "[{name: node-ipam-controller, component: kube-controller-manager}]";
        let head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";
        fs::write(&file, format!("{head}leaderName: moving\ncontrollerLeaders: {leaders}\n")).unwrap();
        let controllers = vec!["namespace-controller".to_owned(), "node-ipam-controller".to_owned()];
        let mut settings = Settings { controllers, ..Settings::default() };
        settings.leader_migration.enable_leader_migration = true;
        settings.leader_migration.leader_migration_config = Some(file);
        settings
    }

    /// Runs the manager of this name for ten seconds with a migration. Returns the leases that it holds then.
    async fn leases_of(original: &'static str) -> Vec<String> {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let client = Client::from_service(&env, server.service(), "test");
        let folder = tempfile::tempdir().unwrap();
        let component = Component { original, ..COMPONENT };
        let running = env.child();
        let settings = migrating(folder.path());
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

    /// A controller that does not stop.
    const STUCK: &[ControllerDescriptor] = &[ControllerDescriptor {
        name: "stuck-controller",
        aliases: &[],
        service_account: None,
        component: "stuck",
        queues: &[],
        informers: &[],
        on_by_default: true,
        start: |_| Box::pin(std::future::pending()),
    }];

    #[tokio::test(start_paused = true)]
    async fn the_end_does_not_wait_for_ever_for_a_controller() {
        for limit in [Duration::ZERO, Duration::from_secs(10)] {
            let env = Env::simulated(1);
            let client = Client::from_service(&env, FakeServer::new(&env).service(), "test");
            let settings = Settings { controller_shutdown_timeout: limit, ..Settings::default() };
            let running = env.child();
            let manager = run_controllers(COMPONENT, LEASE, STUCK, client, settings, running.clone());
            let stop = async {
                env.sleep(Duration::from_secs(10)).await;
                running.shutdown().cancel();
                env.now()
            };
            let (ended, stopped) = futures::join!(manager, stop);
            ended.unwrap();
            let waited = env.now() - stopped;
            assert!(waited >= limit && waited < limit + Duration::from_secs(1), "{waited:?} for {limit:?}");
            env.drain().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_migration_ends_the_manager_with_an_error() {
        let env = Env::simulated(1);
        let client = Client::from_service(&env, FakeServer::new(&env).service(), "test");
        let folder = tempfile::tempdir().unwrap();
        let settings = migrating(folder.path());
        let manager = run_controllers(COMPONENT, LEASE, CONTROLLERS, client.clone(), settings, env.clone());
        let rival = async {
            env.sleep(Duration::from_secs(10)).await;
            let leases = client.api::<Lease>("kube-system");
            let mut lease = leases.get("moving").await.unwrap();
            lease.spec.as_mut().unwrap().holder_identity = Some("rival".to_owned());
            leases.update(&lease).await.unwrap();
        };
        let (ended, ()) = futures::join!(manager, rival);
        let message = ended.unwrap_err().to_string();
        assert!(message.starts_with("leader election lost: lease kube-system/moving"), "{message}");
        env.drain().await;
    }
}
