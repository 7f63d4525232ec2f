//! Starts the Namespace controller, and deletes the content of namespaces.
//!
//! Corresponds to pkg/controller/namespace/namespace_controller.go.

use super::conditions::Findings;
use super::content::delete_all;
use super::plan::{Observed, has_content_to_delete, plan};
use client::reconcile::Reconciler;
use client::{Client, Event, Lister, Plan, ReconcileError};
use controller_base::clock;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::discovery::{ApiResource, Discovered, discover};
use futures::future::join;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Namespace;
use std::time::Duration;

/// Other API servers of the same store may take this long to observe that the namespace is terminating.
const GRACE: Duration = Duration::from_secs(5);

struct Controller {
    namespaces: Lister<Namespace>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Namespace>, queue| {
        if has_content_to_delete(event.object()) {
            queue.add_after(event.object().key(), GRACE);
        }
    });
    let workers = setup.settings.concurrent_namespace_syncs;
    let resync = setup.resync(&queue, setup.settings.namespace_sync_period, has_content_to_delete);
    let rounds = setup.run(queue, workers, Controller { namespaces: setup.lister() });
    Box::pin(async move {
        join(rounds, resync).await;
    })
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let namespace = self.namespaces.by_key(key).filter(|namespace| has_content_to_delete(namespace))?;
        Some(Observed { namespace: (*namespace).clone(), findings: Findings::default(), is_complete: false })
    }

    /// Asks the server whether the namespace is still to be deleted, because deletions cannot be undone. Then deletes
    /// its content, which is in no cache: the answers say what remains.
    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let namespace = match client.api::<Namespace>("").get(observed.namespace.name()).await {
            Ok(namespace) if has_content_to_delete(&namespace) => namespace,
            Ok(_) => return Ok(None),
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let (findings, is_complete) = delete_content(client, &namespace).await;
        Ok(Some(Observed { namespace, findings, is_complete }))
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }
}

/// Makes one pass: deletes the pods, and the rest only if no pod is left. Returns the findings, and true if the pass
/// reached all resources.
async fn delete_content(client: &Client, namespace: &Namespace) -> (Findings, bool) {
    let mut findings = Findings::default();
    let discovered = match discover(client).await {
        Ok(discovered) => discovered,
        Err(error) => {
            findings.discovery_failure = Some(error.to_string());
            return (findings, false);
        }
    };
    findings.discovery_failure = partial_failure(&discovered);
    let deleted_at = namespace.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    let elapsed = deleted_at.map_or(Duration::ZERO, |time| clock::since(time, client.env().wall()));
    let elapsed_s = i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX);
    let deletable: Vec<&ApiResource> =
        discovered.preferred().filter(|resource| resource.is_namespaced && resource.has_verbs(&["delete"])).collect();
    let (pods, others): (Vec<_>, Vec<_>) = deletable.into_iter().partition(|resource| is_pods(resource));
    for resource in pods {
        findings.remaining.push(delete_all(client, resource, namespace.name(), elapsed_s).await);
    }
    if findings.remaining.iter().any(|content| content.count > 0) {
        return (findings, false);
    }
    for resource in others {
        findings.remaining.push(delete_all(client, resource, namespace.name(), elapsed_s).await);
    }
    (findings, true)
}

/// Returns a message if some groups have an aggregated API server that does not answer: they may have content too.
fn partial_failure(discovered: &Discovered) -> Option<String> {
    let stale: Vec<String> =
        discovered.stale.iter().map(|group| format!("{group}: stale GroupVersion discovery: {group}")).collect();
    let whole = "unable to retrieve the complete list of server APIs";
    let message = format!("Discovery failed for some groups, {} failing: {whole}: {}", stale.len(), stale.join(", "));
    (!stale.is_empty()).then_some(message)
}

fn is_pods(resource: &ApiResource) -> bool {
    resource.gvr.group.is_empty() && resource.gvr.resource == "pods"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_do_not_answer_are_named() {
        let failure = |stale: &[&str]| {
            let stale = stale.iter().map(|group| (*group).to_owned()).collect();
            partial_failure(&Discovered { stale, ..Discovered::default() })
        };
        assert_eq!(failure(&[]), None);
        let expected = "Discovery failed for some groups, 1 failing: unable to retrieve the complete list of server \
                        APIs: metrics.k8s.io/v1beta1: stale GroupVersion discovery: metrics.k8s.io/v1beta1";
        assert_eq!(failure(&["metrics.k8s.io/v1beta1"]).as_deref(), Some(expected));
    }
}
