//! Fan-out: one writer, many watchers; how late each hears, and that none misses, repeats or reorders an event.

use super::measurement::Measurement;
use super::objects::{NAMESPACE, config_map, post};
use super::servers::Servers;
use super::{Bench, Error};
use client::request::{Call, JSON};
use client::watch::WatchEvent;
use client::{Client, ListOptions};
use component_base::env::Env;
use futures::future::try_join_all;
use http::Method;
use parking_lot::Mutex;
use proto::gvk::Gvr;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Watches, and updates a second.
const FAN_OUTS: [(usize, u32); 2] = [(100, 100), (1000, 20)];
const EVENTS: usize = 300;
/// The last event has to arrive within this.
const PATIENCE: Duration = Duration::from_secs(60);

/// When each update was sent, by its number.
type Sent = Arc<Mutex<Vec<Instant>>>;

/// What one watcher saw.
#[derive(Default)]
struct Seen {
    delays: Vec<Duration>,
    /// Events that did not come, came again, or came before their turn.
    wrong: u64,
}

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut measured = Vec::new();
    for (watchers, rate) in FAN_OUTS {
        measured.push(fan_out(bench, bench.count(watchers), rate).await?);
    }
    Ok(measured)
}

async fn fan_out(bench: &Bench, watchers: usize, rate: u32) -> Result<Measurement, Error> {
    let servers = Servers::start(bench, "embedded").await?;
    let env = &bench.env;
    let writer = servers.client()?;
    let collection = format!("{NAMESPACE}/configmaps");
    post(writer.clone(), &collection, config_map("fan-out", 512, 0)).await?;
    let events = bench.count(EVENTS);
    let sent: Sent = Arc::default();
    let mut watching = Vec::new();
    for client in servers.clients(watchers)? {
        watching.push(watcher(env, client, events, sent.clone()));
    }
    let watching = try_join_all(watching).await?;
    let before = servers.usage()?;
    let began = env.now();
    for number in 1..=events {
        env.sleep_until(began + Duration::from_secs(1) / rate * u32::try_from(number).unwrap_or(u32::MAX)).await;
        let body = config_map("fan-out", 512, number).to_string();
        sent.lock().push(env.now());
        writer.call(&Call::new(Method::PUT, format!("{collection}/fan-out")).body(JSON, body)).await?;
    }
    let seen = env.timeout(PATIENCE, try_join_all(watching)).await;
    let seen = seen.map_err(|_| Error::Failed(format!("events are missing after {PATIENCE:?}")))?;
    let seen = seen.map_err(|error| Error::Failed(error.to_string()))?;
    let took = env.now().duration_since(began);
    let after = servers.usage()?;
    let errors = seen.iter().map(|seen| seen.wrong).sum();
    let delays: Vec<Duration> = seen.into_iter().flat_map(|seen| seen.delays).collect();
    let what = format!("one event to one of {watchers} watchers, {rate} events a second");
    let delivered = delays.len() as u64;
    let measurement = Measurement::new("watches", what, "embedded", delivered, took, (&before, &after));
    Ok(measurement.latencies(delays).errors(errors))
}

/// Opens a watch; answers, once it stands, the task that reads it.
async fn watcher(env: &Env, client: Client, events: usize, sent: Sent) -> Result<tokio::task::JoinHandle<Seen>, Error> {
    let config_maps = client.dynamic(&Gvr::new("", "v1", "configmaps"), "default");
    let options = ListOptions { field_selector: "metadata.name=fan-out".into(), ..ListOptions::default() };
    let mut watch = config_maps.watch(&options).await?;
    // A watch without a version begins with what is there: from here on it is sure to stand.
    watch.next().await.ok_or_else(|| Error::Failed("a watch ended at once".to_owned()))??;
    let clock = env.clone();
    Ok(env.spawn(async move {
        let mut seen = Seen::default();
        let mut due = 1;
        while due <= events {
            let Some(Ok(WatchEvent::Modified(bytes))) = watch.next().await else { break };
            let now = clock.now();
            let number = marked(&bytes).unwrap_or_default();
            seen.wrong += number.abs_diff(due) as u64;
            due = number + 1;
            if let Some(at) = number.checked_sub(1).and_then(|index| sent.lock().get(index).copied()) {
                seen.delays.push(now.duration_since(at));
            }
        }
        seen.wrong += (events + 1 - due) as u64;
        seen
    }))
}

fn marked(object: &[u8]) -> Option<usize> {
    let object: Value = serde_json::from_slice(object).ok()?;
    object["data"]["mark"].as_str()?.parse().ok()
}
