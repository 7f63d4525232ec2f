//! Starts the garbage collector: it monitors all served resources, and processes two queues.
//!
//! Corresponds to Run in pkg/controller/garbagecollector/garbagecollector.go.

use super::deletion::Deletion;
use super::monitors::Monitors;
use super::orphaning::Orphaning;
use client::Client;
use client::reconcile;
use component_base::env::Env;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::discovery::Rediscovery;
use futures::future::join3;
use std::sync::Arc;
use std::time::Duration;

/// How often discovery is repeated.
const RESYNC: Duration = Duration::from_secs(30);
/// Longest wait for the first sync of all resources.
const FIRST_SYNC: Duration = Duration::from_secs(30);

pub fn start(setup: &Setup<'_>) -> Running {
    if !setup.settings.enable_garbage_collector {
        return Box::pin(async {});
    }
    let [deletions, orphanings] = setup.queues();
    let actor = setup.actor();
    let recorder = actor.recorder.clone();
    let monitors = Monitors::new(setup.discovered(), recorder, deletions.clone(), orphanings.clone());
    let (env, client) = (setup.env.clone(), setup.client.clone());
    let workers = setup.settings.concurrent_gc_syncs;
    Box::pin(async move {
        let mut discovery = Rediscovery::default();
        if !sync_monitors(&env, &client, &monitors, &mut discovery).await {
            return;
        }
        // The server is asked for objects that the graph lacks, so one resource that does not sync need not delay the
        // rest.
        if env.timeout(FIRST_SYNC, monitors.synced()).await.is_err() {
            tracing::warn!("the garbage collector begins before every informer has synced");
        }
        let deletion = Deletion { monitors: monitors.clone() };
        let orphaning = Orphaning { monitors: monitors.clone() };
        join3(
            reconcile::run(actor.clone(), deletions, workers, deletion),
            reconcile::run(actor, orphanings, workers, orphaning),
            resync_monitors(&env, &client, &monitors, &mut discovery),
        )
        .await;
    })
}

/// Monitors the served resources. Retries until discovery succeeds; returns false on shutdown.
async fn sync_monitors(env: &Env, client: &Client, monitors: &Arc<Monitors>, discovery: &mut Rediscovery) -> bool {
    loop {
        match discovery.changed(client).await {
            Ok(discovered) => {
                discovered.iter().for_each(|discovered| monitors.sync(discovered));
                return true;
            }
            Err(error) => tracing::warn!(%error, "the garbage collector waits for discovery"),
        }
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return false,
            () = env.sleep(Duration::from_secs(1)) => {}
        }
    }
}

/// Repeats discovery until shutdown.
async fn resync_monitors(env: &Env, client: &Client, monitors: &Arc<Monitors>, discovery: &mut Rediscovery) {
    let name = "garbagecollector_controller_resources_sync_error_total";
    let errors = env.metrics().counters(name, "Number of garbage collector resources sync errors");
    let errors = errors.get_or_create_owned(&Vec::new());
    loop {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(RESYNC) => {}
        }
        monitors.graph.lock().compact();
        match discovery.changed(client).await {
            Ok(discovered) => discovered.iter().for_each(|discovered| monitors.sync(discovered)),
            Err(error) => {
                errors.inc();
                tracing::warn!(%error, "the garbage collector keeps its former resources");
            }
        }
    }
}
