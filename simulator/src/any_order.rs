//! Path independence: the same edits in any order end in the same state, and edits that are made again write nothing.
//!
//! One cluster has some copies of an object of each kind in `rows`. Each copy gets the same edits in an order of its own,
//! sometimes in the middle of a rollout.

mod rows;

use super::Simulation;
use super::metrics_source::MetricsSource;
use super::user::{self, User};
use client::Client;
use component_base::rng::Random;
use proto::gvk::Gvr;
use rows::{ROWS, Row};
use serde_json::Value;
use std::time::Duration;
use storage::Entry;

/// Number of copies of each object.
const COPIES: usize = 3;
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
const QUIET: Duration = Duration::from_secs(60);

fn copy(number: usize) -> String {
    format!("copy{number}")
}

/// Edits all copies, each in its own order, and checks that they end alike.
pub async fn check(simulation: &Simulation) {
    let (user, random) = (&User::new(simulation, 0), &simulation.env().random("simulation/any-order"));
    prepare(simulation, user).await;
    let copies = (0..COPIES).flat_map(|number| ROWS.iter().map(move |row| (row, copy(number))));
    let edited = copies.clone().map(|(row, name)| async move {
        user.create_any(&(row.object)(&name)).await;
        until_editable(simulation, row, &name).await;
        for edit in shuffled((row.edits)(), random) {
            simulation.env().sleep(LONGEST_PAUSE.mul_f64(random.unit())).await;
            user.patch(row.group, row.resource, row.namespace(), &name, edit).await;
        }
    });
    futures::future::join_all(edited).await;
    simulation.converges().await;
    let entries = simulation.checked_store.snapshot().await.entries;
    for row in ROWS {
        let ends = ends(row, &entries);
        if let Some(other) = ends.iter().find(|end| **end != ends[0]) {
            let what = format!("{}: one order of edits ends as\n{}\nand another as\n{other}", row.resource, ends[0]);
            simulation.fail(what, Vec::new()).await;
        }
    }
    let revision = simulation.checked_store.snapshot().await.revision;
    for (row, name) in copies {
        for edit in (row.edits)() {
            user.patch(row.group, row.resource, row.namespace(), &name, edit).await;
        }
    }
    let of_copies =
        simulation.checked_store.since(revision).iter().filter(|write| write.event.key.contains("copy")).count();
    if of_copies > 0 {
        simulation.fail(format!("the same edits, made again, led to {of_copies} writes"), Vec::new()).await;
    }
    simulation.stays_quiet(QUIET).await;
}

/// Waits until the API takes edits of a copy: a claim can be expanded only when it is bound.
async fn until_editable(simulation: &Simulation, row: &Row, name: &str) {
    let gvr = Gvr::new(row.group, "v1", row.resource);
    let is_editable = async |client: &Client| {
        let got = client.dynamic(&gvr, row.namespace()).get(name).await;
        got.is_ok_and(|object| object["status"]["phase"] == "Bound")
    };
    if row.resource == "persistentvolumeclaims" {
        simulation.until(&format!("the claim {name} is bound"), is_editable).await;
    }
}

/// Creates what the copies need: a class of volumes, and a target and a metric for autoscalers.
async fn prepare(simulation: &Simulation, user: &User<'_>) {
    for object in MetricsSource::registration() {
        user.create_any(&object).await;
    }
    simulation.metrics.set("load", "35");
    user.create_any(&rows::storage_class()).await;
    for number in 0..COPIES {
        let target = user::deployment(&rows::target_of(&copy(number)), 1, "web:1");
        user.create("apps", "deployments", target).await;
    }
}

fn shuffled(mut edits: Vec<Value>, random: &Random) -> Vec<Value> {
    let mut order = Vec::new();
    while !edits.is_empty() {
        order.push(edits.swap_remove(random.below(edits.len())));
    }
    order
}

/// Returns what is compared of each copy, without its number.
fn ends(row: &Row, entries: &[Entry]) -> Vec<Value> {
    let read = |entry: &Entry| Some((entry.key.to_string(), serde_json::from_slice(&entry.value).ok()?));
    let stored: Vec<(String, Value)> = entries.iter().filter_map(read).collect();
    let end = |number: usize| {
        let name = copy(number);
        let object = stored.iter().find(|(key, _)| key.strip_prefix(row.prefix) == Some(&name));
        let end = object.map_or(Value::Null, |(_, object)| (row.end)(object, &stored)).to_string();
        let target = rows::target_of(&name);
        let nameless = end.replace(&name, "copy").replace(&target, "scaled");
        serde_json::from_str(&nameless).unwrap_or_default()
    };
    (0..COPIES).map(end).collect()
}
