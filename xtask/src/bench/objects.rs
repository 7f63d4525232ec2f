//! Verbs on single objects: create, get, get and put, server-side apply, delete.

use super::load::{Load, closed_loop};
use super::measurement::Measurement;
use super::servers::Servers;
use super::{Bench, Error};
use client::Client;
use client::request::{Call, JSON};
use http::Method;
use serde_json::{Value, json};

pub const NAMESPACE: &str = "/api/v1/namespaces/default";
const APPLY: &str = "application/apply-patch+yaml";
/// Objects that get, update and apply choose from.
const OBJECTS: usize = 1000;

/// A ConfigMap of about `size` bytes.
pub fn config_map(name: &str, size: usize, marked: usize) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"mark": marked.to_string(), "pad": ""},
    });
    let pad = size.saturating_sub(object.to_string().len());
    object["data"]["pad"] = json!("x".repeat(pad));
    object
}

/// A Pod of about `size` bytes.
pub fn pod(name: &str, size: usize) -> Value {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}, "annotations": {"pad": ""}},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "c", "image": "registry.k8s.io/pause:3.10",
                "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
            }],
        },
    });
    let pad = size.saturating_sub(object.to_string().len());
    object["metadata"]["annotations"]["pad"] = json!("x".repeat(pad));
    object
}

pub async fn post(client: Client, collection: &str, object: Value) -> Result<(), client::Error> {
    let call = Call::new(Method::POST, collection).body(JSON, object.to_string());
    client.call(&call).await.map(drop)
}

/// Reads an object, sets what stands at a pointer, and writes it back.
pub async fn get_and_put(client: Client, path: String, pointer: &str, text: String) -> Result<(), client::Error> {
    let body = client.call(&Call::new(Method::GET, path.as_str())).await?;
    let mut object: Value = serde_json::from_slice(&body).map_err(|error| client::Error::Decode(error.to_string()))?;
    *object.pointer_mut(pointer).expect("objects are made with it") = json!(text);
    client.call(&Call::new(Method::PUT, path).body(JSON, object.to_string())).await.map(drop)
}

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut measured = Vec::new();
    for engine in ["embedded", "etcd"] {
        for clients in [1, 16, 64] {
            measured.extend(on(bench, engine, clients).await?);
        }
    }
    Ok(measured)
}

async fn on(bench: &Bench, engine: &'static str, clients: usize) -> Result<Vec<Measurement>, Error> {
    let servers = Servers::start(bench, engine).await?;
    let all = servers.clients(clients)?;
    let env = &bench.env;
    let mut measured = Vec::new();
    let mut before = servers.usage()?;
    let mut note = |what: &str, load: Load| {
        let after = servers.usage()?;
        let what = format!("{what}, {clients} clients");
        let count = load.latencies.len() as u64;
        let measurement = Measurement::new("objects", what, engine, count, load.took, (&before, &after));
        measured.push(measurement.latencies(load.latencies).errors(load.errors));
        before = after;
        Ok::<_, Error>(())
    };
    let config_maps = format!("{NAMESPACE}/configmaps");
    let named = |number: usize| format!("{config_maps}/c-{number}");
    let some = |number: usize| named(number % bench.count(OBJECTS));

    let count = bench.count(5000);
    let load = closed_loop(env, &all, count, |client, number| {
        let collection = &config_maps;
        async move { post(client, collection, config_map(&format!("c-{number}"), 1024, 0)).await }
    });
    note("create ConfigMap 1 KiB", load.await)?;

    let pods = format!("{NAMESPACE}/pods");
    let load = closed_loop(env, &all, bench.count(2000), |client, number| {
        let collection = &pods;
        async move { post(client, collection, pod(&format!("p-{number}"), 2048)).await }
    });
    note("create Pod 2 KiB", load.await)?;

    let load = closed_loop(env, &all, bench.count(20_000), |client, number| {
        let path = some(number);
        async move { client.call(&Call::new(Method::GET, path)).await.map(drop) }
    });
    note("get ConfigMap", load.await)?;

    // Each object has one writer at a time: the clients walk over them in turn, and there are more objects than clients.
    let load = closed_loop(env, &all, bench.count(3000), |client, number| {
        get_and_put(client, some(number), "/data/mark", (number + 1).to_string())
    });
    note("get and put ConfigMap", load.await)?;

    let load = closed_loop(env, &all, bench.count(2000), |client, number| {
        let path = format!("{}?fieldManager=bench&force=true", some(number));
        let name = format!("c-{}", number % bench.count(OBJECTS));
        let object = config_map(&name, 1024, count + number).to_string();
        async move { client.call(&Call::new(Method::PATCH, path).body(APPLY, object)).await.map(drop) }
    });
    note("apply ConfigMap", load.await)?;

    let load = closed_loop(env, &all, count, |client, number| {
        let path = named(number);
        async move { client.call(&Call::new(Method::DELETE, path)).await.map(drop) }
    });
    note("delete ConfigMap", load.await)?;
    Ok(measured)
}
