//! The garbage collector at its edge: it follows what is served, and works off two queues.
//!
//! Corresponds to Run in pkg/controller/garbagecollector/garbagecollector.go.

use super::deletion::Deletion;
use super::monitors::Monitors;
use super::orphaning::Orphaning;
use crate::context::Running;
use crate::descriptor::Setup;
use crate::discovery::discover;
use crate::reconcile;
use client::Client;
use component_base::env::Env;
use futures::future::join3;
use std::sync::Arc;
use std::time::Duration;

/// How often it is asked what is served.
const RESYNC: Duration = Duration::from_secs(30);
/// How long the first look at everything is waited for.
const FIRST_SYNC: Duration = Duration::from_secs(30);

pub fn start(setup: &Setup<'_>) -> Running {
    let [deletions, orphanings] = setup.queues();
    let actor = setup.actor();
    let recorder = actor.recorder.clone();
    let monitors = Monitors::new(setup.discovered(), recorder, deletions.clone(), orphanings.clone());
    let (env, client) = (setup.env.clone(), setup.client.clone());
    let workers = setup.settings.concurrent_gc_syncs;
    Box::pin(async move {
        if !follow_what_is_served(&env, &client, &monitors).await {
            return;
        }
        // What was not seen yet is asked for at the server, so a resource that does not answer is no reason to wait longer.
        if env.timeout(FIRST_SYNC, monitors.synced()).await.is_err() {
            tracing::warn!("the garbage collector begins before it has seen every resource");
        }
        let deletion = Deletion { monitors: monitors.clone() };
        let orphaning = Orphaning { monitors: monitors.clone() };
        join3(
            reconcile::run(actor.clone(), deletions, workers, deletion),
            reconcile::run(actor, orphanings, workers, orphaning),
            keep_following(&env, &client, &monitors),
        )
        .await;
    })
}

/// The first look at what is served, tried until it succeeds; false on shutdown.
async fn follow_what_is_served(env: &Env, client: &Client, monitors: &Arc<Monitors>) -> bool {
    loop {
        match discover(client).await {
            Ok(discovered) => {
                monitors.follow(&discovered);
                return true;
            }
            Err(error) => tracing::warn!(%error, "the garbage collector does not know yet what is served"),
        }
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return false,
            () = env.sleep(Duration::from_secs(1)) => {}
        }
    }
}

async fn keep_following(env: &Env, client: &Client, monitors: &Arc<Monitors>) {
    loop {
        tokio::select! {
            biased;
            () = env.shutdown().cancelled() => return,
            () = env.sleep(RESYNC) => {}
        }
        match discover(client).await {
            Ok(discovered) => monitors.follow(&discovered),
            Err(error) => tracing::warn!(%error, "the garbage collector keeps to what was served before"),
        }
    }
}
