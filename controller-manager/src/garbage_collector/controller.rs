//! The garbage collector at its edge: it asks the server itself before it believes that something is absent.
//!
//! Corresponds to pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::{self, Decision, Item, OwnerState};
use super::graph::{FOREGROUND, Identity, Node, referred};
use super::monitors::Monitors;
use crate::context::Running;
use crate::context::{Actor, Context};
use crate::discovery::{ApiResource, discover};
use client::{Client, ReconcileError, apply, run_workers};
use component_base::env::Env;
use futures::future::join3;
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use std::sync::Arc;
use std::time::Duration;

/// How often it is asked what is served.
const RESYNC: Duration = Duration::from_secs(30);
/// How long the first look at everything is waited for.
const FIRST_SYNC: Duration = Duration::from_secs(30);

struct Controller {
    actor: Actor,
    monitors: Arc<Monitors>,
}

pub fn start(context: &Context) -> Running {
    let monitors = Monitors::new(
        context.informers.clone(),
        context.queue("garbage_collector_attempt_to_delete"),
        context.queue("garbage_collector_attempt_to_orphan"),
    );
    let actor = context.act_as("generic-garbage-collector", "garbage-collector-controller");
    let controller = Arc::new(Controller { actor, monitors });
    let (env, client) = (context.env.clone(), context.client.clone());
    let workers = context.settings.concurrent_gc_syncs;
    Box::pin(async move {
        if !follow_what_is_served(&env, &client, &controller.monitors).await {
            return;
        }
        // What was not seen yet is asked for at the server, so a resource that does not answer is no reason to wait longer.
        if env.timeout(FIRST_SYNC, controller.monitors.synced()).await.is_err() {
            tracing::warn!("the garbage collector begins before it has seen every resource");
        }
        let (deleting, orphaning) = (controller.clone(), controller.clone());
        let delete_queue = controller.monitors.delete_queue.clone();
        let orphan_queue = controller.monitors.orphan_queue.clone();
        let deletes = run_workers(&env, "garbage_collector_attempt_to_delete", delete_queue, workers, move |uid| {
            let controller = deleting.clone();
            async move { controller.attempt_to_delete(&uid).await }
        });
        let orphans = run_workers(&env, "garbage_collector_attempt_to_orphan", orphan_queue, workers, move |uid| {
            let controller = orphaning.clone();
            async move { controller.attempt_to_orphan(&uid).await }
        });
        join3(deletes, orphans, keep_following(&env, &client, &controller.monitors)).await;
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

impl Controller {
    async fn attempt_to_delete(&self, uid: &str) -> Result<(), ReconcileError> {
        let Some(node) = self.worth_a_look(uid) else { return Ok(()) };
        let Some((gvr, metadata)) = self.fetch(&node.identity).await? else {
            // What is not there does not come back under this uid; its dependents are told.
            let work = self.monitors.graph.lock().remove(uid);
            self.monitors.enqueue(work);
            return Ok(());
        };
        if node.is_virtual {
            // It exists: its own informer will tell.
            return Ok(());
        }
        let dependents = self.monitors.graph.lock().dependents(uid);
        let item = Item { gvr: &gvr, metadata: &metadata, dependents: &dependents };
        let decision = if node.deletes_dependents {
            decide::finish_foreground(&item)
        } else {
            let mut owners: Vec<(OwnerReference, OwnerState)> = Vec::new();
            for owner in metadata.owner_references.iter().flatten() {
                owners.push((owner.clone(), self.state_of(owner, &node.identity.namespace).await?));
            }
            Decision { plan: decide::collect(&item, &owners), revisit: Vec::new() }
        };
        decision.revisit.into_iter().for_each(|uid| self.monitors.delete_queue.add(uid));
        self.carry_out(&decision.plan).await
    }

    /// The node, unless the graph alone says that there is nothing to do.
    fn worth_a_look(&self, uid: &str) -> Option<Node> {
        let graph = self.monitors.graph.lock();
        let node = graph.node(uid)?;
        let is_already_going = node.is_deleting && !node.deletes_dependents;
        (!is_already_going && !graph.is_settled(node)).then(|| node.clone())
    }

    async fn attempt_to_orphan(&self, uid: &str) -> Result<(), ReconcileError> {
        let (node, dependents) = {
            let graph = self.monitors.graph.lock();
            let Some(node) = graph.node(uid).cloned() else { return Ok(()) };
            (node, graph.dependents(uid))
        };
        for dependent in dependents {
            if let Some((gvr, metadata)) = self.fetch(&dependent.identity).await? {
                let item = Item { gvr: &gvr, metadata: &metadata, dependents: &[] };
                self.carry_out(&decide::release(&item, uid)).await?;
            }
        }
        match self.fetch(&node.identity).await? {
            Some((gvr, metadata)) => {
                let item = Item { gvr: &gvr, metadata: &metadata, dependents: &[] };
                self.carry_out(&decide::finish_orphaning(&item)).await
            }
            None => Ok(()),
        }
    }

    async fn state_of(&self, owner: &OwnerReference, namespace: &str) -> Result<OwnerState, ReconcileError> {
        Ok(match self.fetch(&referred(owner, namespace)).await? {
            None => OwnerState::Absent,
            Some((_, metadata)) => {
                let in_foreground = metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FOREGROUND);
                if metadata.deletion_timestamp.is_some() && in_foreground {
                    OwnerState::Waiting
                } else {
                    OwnerState::Solid
                }
            }
        })
    }

    /// The object itself from the server, if it is still the same one.
    async fn fetch(&self, identity: &Identity) -> Result<Option<(Gvr, ObjectMeta)>, ReconcileError> {
        let found = self.monitors.resource_of(&identity.api_version, &identity.kind);
        let gvr = match (&identity.gvr, &found) {
            (Some(gvr), _) => gvr.clone(),
            (None, Some(resource)) => resource.gvr.clone(),
            (None, None) => {
                let what = format!("no resource is served for kind {} of {}", identity.kind, identity.api_version);
                return Err(ReconcileError::new(what));
            }
        };
        let is_namespaced =
            found.as_ref().map_or(!identity.namespace.is_empty(), |found: &ApiResource| found.is_namespaced);
        if is_namespaced && identity.namespace.is_empty() {
            // A cluster-scoped object cannot be owned by one in a namespace.
            return Ok(None);
        }
        let namespace = if is_namespaced { identity.namespace.as_str() } else { "" };
        match self.actor.client.dynamic(&gvr, namespace).get(&identity.name).await {
            Ok(object) => {
                let metadata: ObjectMeta = serde_json::from_value(object["metadata"].clone())?;
                let is_same = metadata.uid.as_deref() == Some(identity.uid.as_str());
                Ok(is_same.then_some((gvr, metadata)))
            }
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn carry_out(&self, plan: &client::Plan) -> Result<(), ReconcileError> {
        match apply(&self.actor.client, &self.actor.recorder, plan).await {
            Err(error) if !error.cause.is_not_found() => Err(error.into()),
            _ => Ok(()),
        }
    }
}
