//! One attempt to delete an object that may have lost its owners, or that waits for its dependents.
//!
//! Corresponds to attemptToDeleteWorker and attemptToDeleteItem in
//! pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::{self, Item, OwnerState};
use super::graph::{Node, Work};
use super::monitors::Monitors;
use super::server::{Found, fetch, state_of};
use crate::context::Actor;
use crate::reconcile::Reconciler;
use client::{ApplyError, Client, Plan, ReconcileError};
use jiff::Timestamp;
use proto::Gvr;
use proto::kinds::metav1::{ObjectMeta, OwnerReference};
use std::sync::Arc;
use std::time::Duration;

/// When to look again for an owner that exists and that no informer has shown yet.
const UNSEEN_RETRY: Duration = Duration::from_secs(30);

/// Keys are uids.
pub struct Deletion {
    pub monitors: Arc<Monitors>,
}

#[derive(Debug)]
pub struct Observed {
    node: Node,
    dependents: Vec<Node>,
    /// The object as the server has it, once that was asked.
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

    /// Nothing if the graph alone says that there is nothing to do.
    fn observe(&self, uid: &str) -> Option<Observed> {
        let graph = self.monitors.graph.lock();
        let node = graph.node(uid)?.clone();
        let is_already_going = node.is_deleting && !node.deletes_dependents;
        if is_already_going || graph.is_settled(&node) {
            return None;
        }
        let dependents = graph.dependents(uid);
        Some(Observed { node, dependents, gvr: Gvr::default(), metadata: Box::default(), owners: Vec::new() })
    }

    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let identity = &observed.node.identity;
        if observed.node.is_virtual {
            self.look_for(client, &identity.uid).await?;
            return Ok(None);
        }
        let (gvr, metadata) = match fetch(client, &self.monitors, identity).await? {
            Found::There { gvr, metadata } => (gvr, metadata),
            Found::Gone => {
                // What is not there does not come back under this uid; its dependents are told.
                self.monitors.forget(&identity.uid);
                return Ok(None);
            }
            Found::Unknowable => return Ok(None),
        };
        let mut owners: Vec<(OwnerReference, OwnerState)> = Vec::new();
        for owner in metadata.owner_references.iter().flatten().filter(|_| !observed.node.deletes_dependents) {
            let Some(state) = state_of(client, &self.monitors, owner, &identity.namespace).await? else {
                tracing::warn!(
                    kind = identity.kind,
                    name = identity.name,
                    ?owner,
                    "an owner in a namespace: left alone"
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

    /// Dependents that hold up their owner are looked at again.
    async fn apply(&self, actor: &Actor, _key: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        client::apply(&actor.client, &actor.recorder, plan).await?;
        if observed.node.deletes_dependents {
            let blocking = decide::blocking(&observed.item()).into_iter();
            // Those that wait for dependents of their own come back by themselves.
            let idle = blocking.filter(|dependent| !dependent.deletes_dependents);
            self.monitors.enqueue(idle.map(|dependent| Work::AttemptDelete(dependent.identity.uid.clone())).collect());
        }
        Ok(())
    }
}

impl Deletion {
    /// Looks for an owner that only references speak of, wherever they say that it is. Whoever refers to something
    /// absent has to be looked at; as long as it exists somewhere, its informer is waited for.
    async fn look_for(&self, client: &Client, uid: &str) -> Result<(), ReconcileError> {
        let claimed = self.monitors.graph.lock().claimed_identities(uid);
        let mut exists = false;
        for (identity, dependents) in claimed {
            match fetch(client, &self.monitors, &identity).await? {
                Found::There { .. } => exists = true,
                Found::Gone => {
                    self.monitors.absent.lock().add(&identity);
                    self.monitors.enqueue(dependents.into_iter().map(Work::AttemptDelete).collect());
                }
                Found::Unknowable => {}
            }
        }
        if exists {
            self.monitors.delete_queue.add_after(uid.to_owned(), UNSEEN_RETRY);
        }
        Ok(())
    }
}
