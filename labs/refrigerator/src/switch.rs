//! `Switch`: a part that is switched on and off. A controller writes `spec.on`, and the part itself reports `status.on`.
//!
//! Corresponds to the split of spec and status in Kubernetes' API conventions: what is desired, and what is so.

use crate::parts::{CoolingSystem, LightingSystem};
use client::reconcile::{self, Actor, Reconciler};
use client::{Action, Client, Informers, Lister, Patch, Plan, WorkQueue};
use futures::future::BoxFuture;
use jiff::Timestamp;
use proto::Kind;
use serde_json::json;
use std::sync::Arc;

pub trait Switch: Kind {
    /// Returns the desired state.
    fn is_wanted(&self) -> bool;

    /// Returns the state that the part has reported; `None` before its first report.
    fn is_on(&self) -> Option<bool>;
}

impl Switch for LightingSystem {
    fn is_wanted(&self) -> bool {
        self.spec.on
    }

    fn is_on(&self) -> Option<bool> {
        self.status.as_ref().map(|status| status.on)
    }
}

impl Switch for CoolingSystem {
    fn is_wanted(&self) -> bool {
        self.spec.on
    }

    fn is_on(&self) -> Option<bool> {
        self.status.as_ref().map(|status| status.on)
    }
}

/// Plans a controller's wish to have a part on or off; nothing if that is the wish already. Pure.
pub fn want<S: Switch>(part: &S, on: bool) -> Plan {
    if part.is_wanted() == on {
        return Plan::default();
    }
    Plan::of([Action::patch::<S>(part.namespace(), part.name(), Patch::Merge(json!({"spec": {"on": on}})))])
}

/// Plans the report of a part, which is what its spec asks for as soon as it has seen that. Pure.
pub fn report<S: Switch>(part: &S) -> Plan {
    let on = part.is_wanted();
    if part.is_on() == Some(on) {
        return Plan::default();
    }
    Plan::of([Action::patch_status::<S>(part.namespace(), part.name(), Patch::Merge(json!({"status": {"on": on}})))])
}

/// The machines of one kind.
struct Machines<S> {
    parts: Lister<S>,
}

impl<S: Switch> Reconciler for Machines<S> {
    type Observed = Arc<S>;

    fn observe(&self, key: &str) -> Option<Arc<S>> {
        self.parts.by_key(key)
    }

    fn plan(&self, part: &Arc<S>, _now: Timestamp) -> Plan {
        report(&**part)
    }
}

/// Simulates the machines of one kind; `name` is that of their work queue and the source of their events.
pub fn start<S: Switch>(name: &'static str, client: &Client, informers: &Informers) -> BoxFuture<'static, ()> {
    let queue = WorkQueue::new(client.env(), name);
    let parts = informers.of::<S>();
    parts.enqueue_changes(&queue);
    Box::pin(reconcile::run(Actor::new(client, name), queue, 1, Machines { parts: parts.lister() }))
}
