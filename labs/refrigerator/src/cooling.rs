//! The cooling controller: when it is warmer inside than the thermostat says, the compressor is wanted on.
//!
//! Corresponds to the controller of k8s.io/sample-controller. Its two thresholds are what the tolerance is to a
//! HorizontalPodAutoscaler: without them every small change would write.

use crate::parts::{CoolingSystem, Door, Refrigerator, Thermostat};
use crate::switch::want;
use client::reconcile::{self, Actor, Reconciler};
use client::{Client, Informers, Lister, Plan, WorkQueue};
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::sync::Arc;

/// Keys that are reconciled at the same time.
const WORKERS: usize = 2;

/// Distance from the target at which the compressor starts and stops.
const MARGIN_CELSIUS: f64 = 1.0;

struct Controller {
    bodies: Lister<Refrigerator>,
    doors: Lister<Door>,
    thermostats: Lister<Thermostat>,
    compressors: Lister<CoolingSystem>,
}

/// What the controller sees of one refrigerator.
pub struct Observed {
    compressor: Arc<CoolingSystem>,
    body: Option<Arc<Refrigerator>>,
    door: Option<Arc<Door>>,
    thermostat: Option<Arc<Thermostat>>,
}

/// Plans the compressor. Without a thermostat it is wanted off; without a temperature it stays as it is. Pure.
pub fn plan(observed: &Observed) -> Plan {
    let Observed { compressor, body, door, thermostat } = observed;
    let Some(thermostat) = thermostat else { return want(&**compressor, false) };
    let Some(now) = body.as_ref().and_then(|body| body.status.as_ref()) else { return Plan::default() };
    let is_open = door.as_ref().is_some_and(|door| door.spec.open);
    // Warm air is coming in: it starts early.
    let margin = if is_open { 0.0 } else { MARGIN_CELSIUS };
    let above = now.celsius - thermostat.spec.target_celsius;
    let on = above > margin || (compressor.spec.on && above > -MARGIN_CELSIUS);
    want(&**compressor, on)
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        Some(Observed {
            compressor: self.compressors.by_key(key)?,
            body: self.bodies.by_key(key),
            door: self.doors.by_key(key),
            thermostat: self.thermostats.by_key(key),
        })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

/// Adds the controller's handlers to the shared informers, and returns its future. Poll that when the informers have synced.
pub fn start(client: &Client, informers: &Informers) -> BoxFuture<'static, ()> {
    let queue = WorkQueue::new(client.env(), "cooling");
    let (bodies, doors) = (informers.of::<Refrigerator>(), informers.of::<Door>());
    let (thermostats, compressors) = (informers.of::<Thermostat>(), informers.of::<CoolingSystem>());
    bodies.enqueue_changes(&queue);
    doors.enqueue_changes(&queue);
    thermostats.enqueue_changes(&queue);
    compressors.enqueue_changes(&queue);
    let controller = Controller {
        bodies: bodies.lister(),
        doors: doors.lister(),
        thermostats: thermostats.lister(),
        compressors: compressors.lister(),
    };
    Box::pin(reconcile::run(Actor::new(client, "cooling-controller"), queue, WORKERS, controller))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{CoolingSpec, DoorSpec, RefrigeratorSpec, RefrigeratorStatus, ThermostatSpec};

    const ON: &str = r#"merge patch coolingsystems.kitchen.example.com home/white {"spec":{"on":true}}"#;
    const OFF: &str = r#"merge patch coolingsystems.kitchen.example.com home/white {"spec":{"on":false}}"#;

    fn observed(celsius: Option<f64>, target_celsius: Option<f64>, open: bool, on: bool) -> Observed {
        let mut body = Refrigerator::new("home", "white", RefrigeratorSpec { room_celsius: 21.0 });
        body.status = celsius.map(|celsius| RefrigeratorStatus { celsius });
        let thermostat =
            target_celsius.map(|target_celsius| Thermostat::new("home", "white", ThermostatSpec { target_celsius }));
        Observed {
            compressor: Arc::new(CoolingSystem::new("home", "white", CoolingSpec { on })),
            body: Some(Arc::new(body)),
            door: Some(Arc::new(Door::new("home", "white", DoorSpec { open }))),
            thermostat: thermostat.map(Arc::new),
        }
    }

    #[test]
    fn it_starts_above_the_target_and_stops_below_it() {
        for (celsius, target, open, on, expected) in [
            (Some(5.1), Some(4.0), false, false, ON),
            (Some(4.9), Some(4.0), false, false, ""), // not yet
            (Some(4.1), Some(4.0), true, false, ON),  // the door is open
            (Some(3.9), Some(4.0), true, false, ""),
            (Some(4.9), Some(4.0), false, true, ""), // goes on
            (Some(3.1), Some(4.0), false, true, ""), // still
            (Some(2.9), Some(4.0), false, true, OFF),
            (Some(2.9), Some(4.0), true, true, OFF),
            (Some(5.1), Some(8.0), false, true, OFF), // the thermostat was turned
            (Some(-15.0), Some(-18.0), false, false, ON),
            (None, Some(4.0), false, false, ""), // no temperature yet
            (None, Some(4.0), false, true, ""),
            (Some(9.0), None, false, true, OFF), // no thermostat
        ] {
            let printed = plan(&observed(celsius, target, open, on)).to_string();
            assert_eq!(printed.trim_end(), expected, "{celsius:?}, target {target:?}, open {open}, on {on}");
        }
    }
}
