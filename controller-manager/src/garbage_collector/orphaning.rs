//! Letting go of the dependents of an object that is to leave them behind.
//!
//! Corresponds to attemptToOrphanWorker in pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::{self, Item};
use super::graph::Node;
use super::monitors::Monitors;
use super::server::{Found, fetch};
use crate::reconcile::Reconciler;
use client::{Client, Plan, ReconcileError};
use futures::future::try_join_all;
use jiff::Timestamp;
use proto::Gvr;
use proto::kinds::metav1::ObjectMeta;
use std::sync::Arc;

/// So many dependents are asked for at the same time.
const AT_ONCE: usize = 50;

/// Keys are uids.
pub struct Orphaning {
    pub monitors: Arc<Monitors>,
}

#[derive(Debug)]
pub struct Observed {
    node: Node,
    dependents: Vec<Node>,
    /// Those of the dependents that the server has, as it has them.
    present: Vec<(Gvr, Box<ObjectMeta>)>,
    /// The owner itself, unless it is gone.
    owner: Option<(Gvr, Box<ObjectMeta>)>,
}

impl Reconciler for Orphaning {
    type Observed = Observed;

    fn observe(&self, uid: &str) -> Option<Observed> {
        let graph = self.monitors.graph.lock();
        let node = graph.node(uid)?.clone();
        Some(Observed { node, dependents: graph.dependents(uid), present: Vec::new(), owner: None })
    }

    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        for some in observed.dependents.chunks(AT_ONCE) {
            let found = some.iter().map(|dependent| fetch(client, &self.monitors, &dependent.identity));
            observed.present.extend(try_join_all(found).await?.into_iter().filter_map(there));
        }
        observed.owner = there(fetch(client, &self.monitors, &observed.node.identity).await?);
        Ok(Some(observed))
    }

    /// The owner goes after all its dependents were let go of.
    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        let item = |(gvr, metadata): &(Gvr, Box<ObjectMeta>)| {
            decide::release(&Item { gvr, metadata, dependents: &[] }, &observed.node.identity.uid)
        };
        let mut plan = Plan::of(observed.present.iter().filter_map(item));
        if let Some((gvr, metadata)) = &observed.owner {
            plan.actions.extend(decide::finish_orphaning(&Item { gvr, metadata, dependents: &[] }).actions);
        }
        plan
    }
}

fn there(found: Found) -> Option<(Gvr, Box<ObjectMeta>)> {
    match found {
        Found::There { gvr, metadata } => Some((gvr, metadata)),
        Found::Gone | Found::Unknowable => None,
    }
}
