//! Attempts to delete an object that may have no owner any more, or that waits for its dependents.
//!
//! Corresponds to attemptToDeleteWorker and attemptToDeleteItem in
//! pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::{self, Item, OwnerState};
use super::graph::{Node, Work};
use super::monitors::Monitors;
use super::server::{Lookup, look_up, owner_state};
use client::reconcile::Reconciler;
use client::{ApplyError, Client, Plan, ReconcileError};
use controller_base::context::Actor;
use jiff::Timestamp;
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use std::sync::Arc;
use std::time::Duration;

/// How soon to look up an owner again that exists and that no informer has shown.
const VIRTUAL_RETRY: Duration = Duration::from_secs(30);

/// Reconciles objects by uid.
pub struct Deletion {
    pub monitors: Arc<Monitors>,
}

#[derive(Debug)]
pub struct Observed {
    node: Node,
    dependents: Vec<Node>,
    /// Resource and metadata of the object on the server; empty before `consult`.
    gvr: Gvr,
    metadata: Box<ObjectMeta>,
    owners: Vec<(OwnerReference, OwnerState)>,
}

impl Observed {
    fn item(&self) -> Item<'_> {
        Item { gvr: &self.gvr, metadata: &self.metadata, dependents: &self.dependents }
    }
}

impl Reconciler for Deletion {
    type Observed = Observed;

    /// Reads the graph; `None` if it shows that there is nothing to do.
    fn observe(&self, uid: &str) -> Option<Observed> {
        let graph = self.monitors.graph.lock();
        let node = graph.node(uid)?;
        let is_being_deleted = node.is_deleting && !node.deletes_dependents;
        if is_being_deleted || graph.is_kept_by_owners(&node) {
            return None;
        }
        let dependents = graph.dependents(uid);
        Some(Observed { node, dependents, gvr: Gvr::default(), metadata: Box::default(), owners: Vec::new() })
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let identity = &observed.node.identity;
        if observed.node.is_virtual {
            self.look_up_virtual(client, &identity.uid).await?;
            return Ok(None);
        }
        let (gvr, metadata) = match look_up(client, &self.monitors, identity).await? {
            Lookup::Present { gvr, metadata } => (gvr, metadata),
            Lookup::Absent => {
                // No later object has this uid: the dependents are to be deleted.
                self.monitors.forget(&identity.uid);
                return Ok(None);
            }
            Lookup::Unknowable => return Ok(None),
        };
        let mut owners: Vec<(OwnerReference, OwnerState)> = Vec::new();
        for owner in metadata.owner_references.iter().flatten().filter(|_| !observed.node.deletes_dependents) {
            let Some(state) = owner_state(client, &self.monitors, owner, &identity.namespace).await? else {
                tracing::warn!(
                    kind = identity.kind,
                    name = identity.name,
                    ?owner,
                    "a cluster-scoped object with a namespaced owner is left alone"
                );
                return Ok(None);
            };
            owners.push((owner.clone(), state));
        }
        Ok(Some(Observed { gvr, metadata, owners, ..observed }))
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        if observed.node.deletes_dependents {
            decide::finish_foreground(&observed.item())
        } else {
            decide::collect(&observed.item(), &observed.owners)
        }
    }

    /// Adds the dependents that block the deletion to the queue again.
    async fn apply(&self, actor: &Actor, _key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        client::apply(&actor.client, &actor.recorder, plan).await?;
        if observed.node.deletes_dependents {
            let blocking = decide::blocking(&observed.item()).into_iter();
            // Dependents that wait for their own dependents are added by other events.
            let idle = blocking.filter(|dependent| !dependent.deletes_dependents);
            self.monitors.enqueue(idle.map(|dependent| Work::AttemptDelete(dependent.identity.uid.clone())).collect());
        }
        Ok(())
    }
}

impl Deletion {
    /// Looks up an owner that is known from references alone, under every identity that they claim. Adds the dependents
    /// that refer to an absent one. If one exists, adds the owner again later: its informer has to show it.
    async fn look_up_virtual(&self, client: &Client, uid: &str) -> Result<(), ReconcileError> {
        let claimed = self.monitors.graph.lock().claimed_identities(uid);
        let mut exists = false;
        for (identity, dependents) in claimed {
            match look_up(client, &self.monitors, &identity).await? {
                Lookup::Present { .. } => exists = true,
                Lookup::Absent => {
                    self.monitors.absent.lock().add(&identity);
                    self.monitors.enqueue(dependents.into_iter().map(Work::AttemptDelete).collect());
                }
                Lookup::Unknowable => {}
            }
        }
        if exists {
            self.monitors.delete_queue.add_after(uid.to_owned(), VIRTUAL_RETRY);
        }
        Ok(())
    }
}
