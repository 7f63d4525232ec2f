//! The lighting controller: while the door is open, the light is wanted on.
//!
//! Corresponds to the controller of k8s.io/sample-controller: events add keys, a worker reconciles them one by one.

use crate::parts::{Door, LightingSystem};
use crate::switch::want;
use client::reconcile::{self, Actor, Reconciler};
use client::{Client, Informers, Lister, Plan, WorkQueue};
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::sync::Arc;

/// Keys that are reconciled at the same time.
const WORKERS: usize = 2;

struct Controller {
    doors: Lister<Door>,
    lights: Lister<LightingSystem>,
}

/// What the controller sees of one refrigerator.
pub struct Observed {
    light: Arc<LightingSystem>,
    door: Option<Arc<Door>>,
}

/// Plans the light. A refrigerator without a door keeps its light off. Pure.
pub fn plan(observed: &Observed) -> Plan {
    want(&*observed.light, observed.door.as_ref().is_some_and(|door| door.spec.open))
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        Some(Observed { light: self.lights.by_key(key)?, door: self.doors.by_key(key) })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

/// Adds the controller's handlers to the shared informers, and returns its future. Poll that when the informers have synced.
pub fn start(client: &Client, informers: &Informers) -> BoxFuture<'static, ()> {
    let queue = WorkQueue::new(client.env(), "lighting");
    let (doors, lights) = (informers.of::<Door>(), informers.of::<LightingSystem>());
    // All parts of a refrigerator have one key.
    doors.enqueue_changes(&queue);
    lights.enqueue_changes(&queue);
    let controller = Controller { doors: doors.lister(), lights: lights.lister() };
    Box::pin(reconcile::run(Actor::new(client, "lighting-controller"), queue, WORKERS, controller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{DoorSpec, LightingSpec};

    const ON: &str = r#"merge patch lightingsystems.kitchen.example.com home/white {"spec":{"on":true}}"#;
    const OFF: &str = r#"merge patch lightingsystems.kitchen.example.com home/white {"spec":{"on":false}}"#;

    #[test]
    fn the_light_follows_the_door() {
        for (door_is_open, light_is_wanted, expected) in [
            (Some(true), false, ON),
            (Some(true), true, ""),
            (Some(false), true, OFF),
            (Some(false), false, ""),
            (None, true, OFF),
            (None, false, ""),
        ] {
            let door = door_is_open.map(|open| Arc::new(Door::new("home", "white", DoorSpec { open })));
            let light = Arc::new(LightingSystem::new("home", "white", LightingSpec { on: light_is_wanted }));
            let printed = plan(&Observed { light, door }).to_string();
            assert_eq!(printed.trim_end(), expected, "door {door_is_open:?}, light {light_is_wanted}");
        }
    }

    #[test]
    fn a_door_without_a_light_is_nobodys_work() {
        let doors = Lister::of([Door::new("home", "white", DoorSpec { open: true })]);
        assert!(Controller { doors, lights: Lister::of([]) }.observe("home/white").is_none());
    }
}
