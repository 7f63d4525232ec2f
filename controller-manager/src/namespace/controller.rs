//! The Namespace controller at its edge.
//!
//! Corresponds to pkg/controller/namespace/namespace_controller.go.

use super::conditions::Findings;
use super::content::delete_all;
use super::plan::{needs_emptying, plan};
use crate::context::Running;
use crate::context::{Actor, Context};
use crate::discovery::{ApiResource, discover};
use client::{Lister, ReconcileError, WorkQueue, apply, run_workers};
use proto::Kind;
use proto::kinds::api::core::v1::Namespace;
use std::sync::Arc;
use std::time::Duration;

/// Other API servers that share the store may take as long to hear that nothing new fits in.
const GRACE: Duration = Duration::from_secs(5);

struct Controller {
    actor: Actor,
    queue: WorkQueue<String>,
    namespaces: Lister<Namespace>,
}

pub fn start(context: &Context) -> Running {
    let namespaces = context.informers.of::<Namespace>();
    let controller = Arc::new(Controller {
        actor: context.act_as("namespace-controller", "namespace-controller"),
        queue: context.queue("namespace"),
        namespaces: namespaces.lister(),
    });
    namespaces.on_event({
        let queue = controller.queue.clone();
        move |event| {
            if needs_emptying(event.object()) {
                queue.add_after(event.object().key(), GRACE);
            }
        }
    });
    let (env, workers) = (context.env.clone(), context.settings.concurrent_namespace_syncs);
    Box::pin(async move {
        let queue = controller.queue.clone();
        run_workers(&env, "namespace", queue, workers, move |key| {
            let controller = controller.clone();
            async move { controller.round(key).await }
        })
        .await;
    })
}

impl Controller {
    async fn round(&self, name: String) -> Result<(), ReconcileError> {
        let cached = self.namespaces.by_key(&name).filter(|namespace| needs_emptying(namespace));
        if cached.is_none() {
            return Ok(());
        }
        // What is done here cannot be undone: ask the server itself.
        let namespace = match self.actor.client.api::<Namespace>("").get(&name).await {
            Ok(namespace) if needs_emptying(&namespace) => namespace,
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let (findings, is_whole) = self.empty(&name).await;
        let plan = plan(&namespace, &findings, is_whole, self.actor.client.env().wall());
        match apply(&self.actor.client, &self.actor.recorder, &plan).await {
            Err(error) if !error.cause.is_not_found() => return Err(error.into()),
            _ => {}
        }
        if let Some(after) = plan.requeue_after {
            self.queue.add_after(name, after);
        }
        Ok(())
    }

    /// One pass: pods first, and only when none is left the rest. Answers what was found and whether that was all.
    async fn empty(&self, namespace: &str) -> (Findings, bool) {
        let mut findings = Findings::default();
        let client = &self.actor.client;
        let discovered = match discover(client).await {
            Ok(discovered) => discovered,
            Err(error) => {
                findings.discovery_failure = Some(error.to_string());
                return (findings, false);
            }
        };
        if !discovered.stale.is_empty() {
            findings.discovery_failure = Some(format!("stale GroupVersion discovery: {}", discovered.stale.join(", ")));
        }
        let deletable: Vec<&ApiResource> = discovered
            .preferred()
            .filter(|resource| resource.is_namespaced && resource.has_verbs(&["delete"]))
            .collect();
        let (pods, others): (Vec<_>, Vec<_>) = deletable.into_iter().partition(|resource| is_pods(resource));
        for resource in pods {
            findings.remains.push(delete_all(client, resource, namespace).await);
        }
        if !findings.remains.iter().all(|remains| remains.count == 0 && remains.error.is_none()) {
            return (findings, false);
        }
        for resource in others {
            findings.remains.push(delete_all(client, resource, namespace).await);
        }
        (findings, true)
    }
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.gvr.group.is_empty() && resource.gvr.resource == "pods"
}
