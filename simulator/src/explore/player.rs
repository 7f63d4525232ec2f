//! `Player`: takes the steps of a story, one after the other.

use crate::Simulation;
use crate::explore::step::{self, Delete, Metric, Patch, Place, Propagation, Step, Until};
use crate::metrics_source::MetricsSource;
use crate::user::User;
use client::Client;
use serde_json::{Value, json};
use std::cell::Cell;

pub struct Player<'a> {
    simulation: &'a Simulation,
    user: User<'a>,
    has_metrics: Cell<bool>,
}

impl<'a> Player<'a> {
    pub fn new(simulation: &'a Simulation, nodes: u32) -> Self {
        Self { simulation, user: User::new(simulation, nodes), has_metrics: Cell::new(false) }
    }

    /// Takes a step, and returns when it is completed. A step that names no object of the API has been refused before.
    pub async fn take(&self, step: &Step) {
        if let Some(object) = &step.create {
            self.user.create_any(&in_namespace(object)).await;
        }
        if let Some(Patch { object, namespace, with }) = &step.patch
            && let Ok(Place { gvr, namespace, name }) = Place::read(object, namespace.as_deref())
        {
            self.user.patch_in(&gvr, &namespace, &name, &client::Patch::Strategic(with.clone())).await;
        }
        if let Some(Delete { object, namespace, propagation }) = &step.delete
            && let Ok(Place { gvr, namespace, name }) = Place::read(object, namespace.as_deref())
        {
            self.user.delete_in(&gvr, &namespace, &name, propagation.map(policy)).await;
        }
        if let Some(until) = &step.until {
            self.wait_until(until).await;
        }
        if let Some(Metric { name, value }) = &step.metric {
            if !self.has_metrics.replace(true) {
                for object in MetricsSource::registration() {
                    self.user.create_any(&object).await;
                }
            }
            self.simulation.metrics.set(name, value);
        }
        if let Some(span) = &step.wait {
            self.simulation.env().sleep(span.duration).await;
        }
    }

    async fn wait_until(&self, until: &Until) {
        let (Ok(place), Ok(program)) = (Place::read(&until.object, until.namespace.as_deref()), until.program()) else {
            return;
        };
        let condition =
            async |client: &Client| match client.dynamic(&place.gvr, &place.namespace).get(&place.name).await {
                Ok(object) => step::holds(&program, &object),
                Err(error) => error.is_not_found() && step::holds(&program, &Value::Null),
            };
        self.simulation.until(&format!("{} has {}", until.object, until.is), condition).await;
    }
}

/// Returns an object with a namespace if it names none. `User` takes it away where the kind has none.
fn in_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    if object["metadata"]["namespace"].is_null() {
        object["metadata"]["namespace"] = json!("default");
    }
    object
}

fn policy(propagation: Propagation) -> client::Propagation {
    match propagation {
        Propagation::Background => client::Propagation::Background,
        Propagation::Foreground => client::Propagation::Foreground,
        Propagation::Orphan => client::Propagation::Orphan,
    }
}
