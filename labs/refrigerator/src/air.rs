//! The simulated air in refrigerators: warmed by the room, cooled by the compressor, and measured once a second.
//!
//! Corresponds to no part of Kubernetes: it is the machine that controllers command and observe. The temperature is kept in the
//! status alone, so a simulation that restarts goes on from there.

use crate::parts::{CoolingSystem, Door, Refrigerator};
use client::reconcile::{self, Actor, PeriodicReconciler};
use client::{Action, Client, Informers, Lister, Patch, Plan};
use component_base::rng::Random;
use futures::future::BoxFuture;
use jiff::Timestamp;
use proto::Kind;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

/// Time between two measurements.
const PERIOD: Duration = Duration::from_secs(1);

/// Parts of the difference to the room that come in each period.
const LEAK_CLOSED: f64 = 0.004;
const LEAK_OPEN: f64 = 0.04;

/// Degrees that a running compressor takes out each period.
const COOLING_CELSIUS: f64 = 0.25;

/// Most that a draught adds to or takes from a leak, as a part of it.
const DRAUGHT: f64 = 0.2;

struct Air {
    bodies: Lister<Refrigerator>,
    doors: Lister<Door>,
    compressors: Lister<CoolingSystem>,
    random: Random,
}

/// One refrigerator at the time of a measurement.
pub struct Observed {
    body: Arc<Refrigerator>,
    is_open: bool,
    is_cooled: bool,
    /// Between -1 and 1.
    draught: f64,
}

/// Returns the temperature after one period. A new refrigerator is as warm as its room. Pure.
pub fn next_celsius(observed: &Observed) -> f64 {
    let room = observed.body.spec.room_celsius;
    let Some(status) = &observed.body.status else { return room };
    let leak = if observed.is_open { LEAK_OPEN } else { LEAK_CLOSED };
    let warmed = (room - status.celsius) * leak * (1.0 + DRAUGHT * observed.draught);
    let cooled = if observed.is_cooled { COOLING_CELSIUS } else { 0.0 };
    // A thermometer has two digits. At rest it shows the same, and nothing is written.
    ((status.celsius + warmed - cooled) * 100.0).round() / 100.0
}

/// Plans the report of a temperature that has changed. Pure.
pub fn plan(observed: &Observed) -> Plan {
    let (body, celsius) = (&observed.body, next_celsius(observed));
    if body.status.as_ref().is_some_and(|status| status.celsius == celsius) {
        return Plan::default();
    }
    let patch = Patch::Merge(json!({"status": {"celsius": celsius}}));
    Plan::of([Action::patch_status::<Refrigerator>(body.namespace(), body.name(), patch)])
}

impl PeriodicReconciler for Air {
    type Observed = Vec<Observed>;

    async fn observe(&mut self, _now: Timestamp) -> Vec<Observed> {
        let of = |body: Arc<Refrigerator>| {
            let key = body.key();
            let is_cooled = self.compressors.by_key(&key).and_then(|compressor| Some(compressor.status.as_ref()?.on));
            Observed {
                is_open: self.doors.by_key(&key).is_some_and(|door| door.spec.open),
                is_cooled: is_cooled.unwrap_or(false),
                draught: self.random.unit() * 2.0 - 1.0,
                body,
            }
        };
        self.bodies.list().into_iter().map(of).collect()
    }

    fn plan(&mut self, observed: &Vec<Observed>, _now: Timestamp) -> Vec<Plan> {
        observed.iter().map(plan).collect()
    }
}

/// Simulates the air until shutdown.
pub fn start(client: &Client, informers: &Informers) -> BoxFuture<'static, ()> {
    let air = Air {
        bodies: informers.of::<Refrigerator>().lister(),
        doors: informers.of::<Door>().lister(),
        compressors: informers.of::<CoolingSystem>().lister(),
        random: client.env().random("draught"),
    };
    Box::pin(reconcile::run_periodically(client.env().clone(), Actor::new(client, "air"), "air", PERIOD, air))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::{RefrigeratorSpec, RefrigeratorStatus};

    fn observed(celsius: Option<f64>, is_open: bool, is_cooled: bool, draught: f64) -> Observed {
        let mut body = Refrigerator::new("home", "white", RefrigeratorSpec { room_celsius: 21.0 });
        body.status = celsius.map(|celsius| RefrigeratorStatus { celsius });
        Observed { body: Arc::new(body), is_open, is_cooled, draught }
    }

    #[test]
    fn the_room_warms_and_the_compressor_cools() {
        for (celsius, is_open, is_cooled, draught, expected) in [
            (None, false, false, 0.0, 21.0),
            (Some(1.0), false, false, 0.0, 1.08), // 1 + 20 * 0.004
            (Some(1.0), true, false, 0.0, 1.8),   // ten times as fast
            (Some(1.0), true, false, 1.0, 1.96),
            (Some(1.0), true, false, -1.0, 1.64),
            (Some(1.0), false, true, 0.0, 0.83),
            (Some(1.0), true, true, 0.0, 1.55), // an open door wins
            (Some(21.0), true, false, 1.0, 21.0),
            (Some(26.0), false, false, 0.0, 25.98), // warm food
        ] {
            let observed = observed(celsius, is_open, is_cooled, draught);
            assert_eq!(next_celsius(&observed), expected, "{celsius:?} open {is_open} cooled {is_cooled} {draught}");
        }
    }

    #[test]
    fn what_does_not_change_is_not_written() {
        assert!(plan(&observed(Some(21.0), true, false, 1.0)).is_empty());
        let printed = plan(&observed(Some(1.0), false, false, 0.0)).to_string();
        assert_eq!(
            printed.trim_end(),
            r#"merge patch refrigerators.kitchen.example.com/status home/white {"status":{"celsius":1.08}}"#
        );
    }
}
