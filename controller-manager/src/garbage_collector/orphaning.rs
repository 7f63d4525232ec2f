//! Orphans the dependents of an object: removes their references to it, and then its finalizer.
//!
//! Corresponds to attemptToOrphanWorker in pkg/controller/garbagecollector/garbagecollector.go.

use super::decide::{self, Item};
use super::graph::Node;
use super::monitors::Monitors;
use super::server::{Lookup, look_up};
use client::reconcile::Reconciler;
use client::{Client, Plan, ReconcileError};
use futures::future::try_join_all;
use jiff::Timestamp;
use proto::Gvr;
use proto::kinds::metav1::ObjectMeta;
use std::sync::Arc;

/// Number of dependents that are looked up concurrently.
const CONCURRENT_LOOKUPS: usize = 50;

/// Reconciles owners by uid.
pub struct Orphaning {
    pub monitors: Arc<Monitors>,
}

#[derive(Debug)]
pub struct Observed {
    node: Node,
    dependents: Vec<Node>,
    /// Resource and metadata of the dependents that exist on the server.
    present: Vec<(Gvr, Box<ObjectMeta>)>,
    /// Resource and metadata of the owner, if it exists.
    owner: Option<(Gvr, Box<ObjectMeta>)>,
}

impl Reconciler for Orphaning {
    type Observed = Observed;

    fn observe(&self, uid: &str) -> Option<Observed> {
        let graph = self.monitors.graph.lock();
        let node = graph.node(uid)?;
        Some(Observed { node, dependents: graph.dependents(uid), present: Vec::new(), owner: None })
    }

    async fn consult(&self, client: &Client, mut observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        for dependents in observed.dependents.chunks(CONCURRENT_LOOKUPS) {
            let lookups = dependents.iter().map(|dependent| look_up(client, &self.monitors, &dependent.identity));
            observed.present.extend(try_join_all(lookups).await?.into_iter().filter_map(present));
        }
        observed.owner = present(look_up(client, &self.monitors, &observed.node.identity).await?);
        Ok(Some(observed))
    }

    /// Releases all dependents first, and then finishes the owner.
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

fn present(lookup: Lookup) -> Option<(Gvr, Box<ObjectMeta>)> {
    match lookup {
        Lookup::Present { gvr, metadata } => Some((gvr, metadata)),
        Lookup::Absent | Lookup::Unknowable => None,
    }
}
