//! LIST of ten thousand pods, from the cache as it is and consistently.

use super::load::closed_loop;
use super::measurement::Measurement;
use super::objects::{NAMESPACE, pod, post};
use super::servers::Servers;
use super::{Bench, Error};
use client::request::Call;
use http::Method;

const PODS: usize = 10_000;
const REPEATS: usize = 10;
/// Clients that create the pods.
const CREATORS: usize = 16;

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let servers = Servers::start(bench, "embedded").await?;
    let collection = format!("{NAMESPACE}/pods");
    let pods = bench.count(PODS);
    let creators = servers.clients(CREATORS)?;
    let filled = closed_loop(&bench.env, &creators, pods, |client, number| {
        let collection = &collection;
        async move { post(client, collection, pod(&format!("p-{number}"), 1024)).await }
    });
    filled.await.must_succeed()?;
    let reader = servers.clients(1)?;
    let mut measured = Vec::new();
    for (how, query) in [("resourceVersion=0", "?resourceVersion=0"), ("consistent", "")] {
        let before = servers.usage()?;
        let load = closed_loop(&bench.env, &reader, REPEATS, |client, _| {
            let target = format!("{collection}{query}");
            async move { client.call(&Call::new(Method::GET, target)).await.map(drop) }
        });
        let load = load.await;
        let after = servers.usage()?;
        let what = format!("list {pods} pods, {how}");
        let measurement = Measurement::new("lists", what, "embedded", REPEATS as u64, load.took, (&before, &after));
        measured.push(measurement.latencies(load.latencies).errors(load.errors));
    }
    Ok(measured)
}
