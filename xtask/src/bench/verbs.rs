//! Every verb on three collections: small objects, pods, and a custom resource of the small objects' size.
//!
//! What a custom resource costs beside a built-in one is the point: both are about one KiB, so each row of the one can
//! be read beside the row of the other.

use super::load::{Load, closed_loop};
use super::measurement::Measurement;
use super::objects::{NAMESPACE, config_map, get_and_put, pod, post};
use super::servers::Servers;
use super::{Bench, Error};
use client::Client;
use client::options::ListOptions;
use client::request::Call;
use client::watch::WatchEvent;
use component_base::env::Env;
use futures::future::join_all;
use http::Method;
use proto::gvk::Gvr;
use serde_json::{Value, json};
use std::time::Duration;

const CLIENTS: usize = 16;
const OBJECTS: usize = 2000;
/// Of each write, and of a list of all.
const WRITES: usize = 2000;
const READS: usize = 10_000;
const LISTS: usize = 20;
const WATCHERS: usize = 100;
const WATCHED_WRITES: usize = 100;
/// A new kind is served soon after its definition is stored.
const SERVED_LOOK: Duration = Duration::from_millis(20);
const SERVED_WITHIN: Duration = Duration::from_secs(10);

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// A collection under measurement.
struct Subject {
    /// As rows call it.
    name: &'static str,
    group: &'static str,
    resource: &'static str,
    /// The object of a name, with a number that writes change.
    object: fn(&str, usize) -> Value,
    /// The pointer and the member of that number: what patches change.
    mark: &'static str,
    /// Strategic merge needs a schema that was compiled in.
    is_builtin: bool,
    has_status: bool,
}

const SUBJECTS: [Subject; 3] = [
    Subject {
        name: "ConfigMap 1 KiB",
        group: "",
        resource: "configmaps",
        object: |name, mark| config_map(name, 1024, mark),
        mark: "/data/mark",
        is_builtin: true,
        has_status: false,
    },
    Subject {
        name: "Pod 2 KiB",
        group: "",
        resource: "pods",
        object: |name, mark| {
            let mut object = pod(name, 2048);
            object["metadata"]["annotations"]["mark"] = json!(mark.to_string());
            object
        },
        mark: "/metadata/annotations/mark",
        is_builtin: true,
        has_status: true,
    },
    Subject {
        name: "custom resource 1 KiB",
        group: "bench.example",
        resource: "gadgets",
        object: gadget,
        mark: "/spec/mark",
        is_builtin: false,
        has_status: true,
    },
];

/// A custom object of as many bytes as its ConfigMap.
fn gadget(name: &str, mark: usize) -> Value {
    let mut object = json!({
        "apiVersion": "bench.example/v1", "kind": "Gadget", "metadata": {"name": name},
        "spec": {"mark": mark.to_string(), "pad": ""},
    });
    let pad = 1024_usize.saturating_sub(object.to_string().len());
    object["spec"]["pad"] = json!("x".repeat(pad));
    object
}

fn definition() -> Value {
    let text = json!({"type": "string", "maxLength": 4096});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.bench.example"},
        "spec": {
            "group": "bench.example", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object", "required": ["mark"],
                        "properties": {"mark": text, "pad": text, "size": {"type": "integer", "default": 1}},
                    },
                    "status": {"type": "object", "properties": {"phase": text}},
                }}},
            }],
        },
    })
}

impl Subject {
    fn collection(&self) -> String {
        match self.group {
            "" => format!("{NAMESPACE}/{}", self.resource),
            group => format!("/apis/{group}/v1/namespaces/default/{}", self.resource),
        }
    }

    /// A merge patch of the mark.
    fn patch(&self, mark: usize) -> Value {
        let mut patch = json!(mark.to_string());
        for member in self.mark.rsplit('/').filter(|member| !member.is_empty()) {
            patch = json!({member: patch});
        }
        patch
    }
}

pub async fn run(bench: &Bench) -> Result<Vec<Measurement>, Error> {
    let mut measured = Vec::new();
    for subject in &SUBJECTS {
        // Each on servers of its own, so that the memory is its own too.
        let mut run = Run { bench, servers: Servers::start(bench, "embedded").await?, measured: Vec::new() };
        if !subject.is_builtin {
            define(&bench.env, &run.servers.client()?, subject).await?;
        }
        run.verbs(subject).await?;
        measured.append(&mut run.measured);
    }
    Ok(measured)
}

async fn define(env: &Env, client: &Client, subject: &Subject) -> Result<(), Error> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    post(client.clone(), definitions, definition()).await?;
    let served = async {
        while client.call(&Call::new(Method::GET, subject.collection())).await.is_err() {
            env.sleep(SERVED_LOOK).await;
        }
    };
    let late = |_| Error::Failed(format!("{} are not served after {SERVED_WITHIN:?}", subject.resource));
    env.timeout(SERVED_WITHIN, served).await.map_err(late)
}

struct Run<'a> {
    bench: &'a Bench,
    servers: Servers,
    measured: Vec<Measurement>,
}

impl Run<'_> {
    /// Measures one row: so many operations of sixteen clients.
    async fn row<F>(
        &mut self,
        subject: &Subject,
        verb: &str,
        count: usize,
        operation: impl Fn(Client, usize) -> F + Sync,
    ) -> Result<(), Error>
    where
        F: Future<Output = Result<(), client::Error>>,
    {
        let clients = self.servers.clients(CLIENTS)?;
        let before = self.servers.usage()?;
        let load = closed_loop(&self.bench.env, &clients, count, operation).await;
        self.note(subject, verb, load, &before)
    }

    fn note(&mut self, subject: &Subject, verb: &str, load: Load, before: &super::process::Usage) -> Result<(), Error> {
        let after = self.servers.usage()?;
        let count = load.latencies.len() as u64;
        let what = format!("{verb} {}, {CLIENTS} clients", subject.name);
        let measurement = Measurement::new("api", what, "embedded", count, load.took, (before, &after));
        self.measured.push(measurement.latencies(load.latencies).errors(load.errors));
        Ok(())
    }

    async fn verbs(&mut self, subject: &Subject) -> Result<(), Error> {
        let collection = subject.collection();
        let (objects, writes) = (self.bench.count(OBJECTS), self.bench.count(WRITES));
        let name = |number: usize| format!("o-{}", number % objects);
        let path = |number: usize| format!("{collection}/{}", name(number));
        let send = |client: Client, method: Method, target: String, content_type: &'static str, body: String| async move {
            client.call(&Call::new(method, target).body(content_type, body)).await.map(drop)
        };

        let create = |client, number| post(client, &collection, (subject.object)(&name(number), number));
        self.row(subject, "create", objects, create).await?;
        let get = |client: Client, number| {
            let target = path(number);
            async move { client.call(&Call::new(Method::GET, target)).await.map(drop) }
        };
        self.row(subject, "get", self.bench.count(READS), get).await?;
        let list = |client: Client, _| {
            let target = collection.clone();
            async move { client.call(&Call::new(Method::GET, target)).await.map(drop) }
        };
        self.row(subject, &format!("list {objects} of"), self.bench.count(LISTS), list).await?;
        self.watch(subject).await?;
        let update = |client, number| get_and_put(client, path(number), subject.mark, format!("u{number}"));
        self.row(subject, "get and update", writes, update).await?;
        let json_patch = |client, number: usize| {
            let patch = json!([{"op": "replace", "path": subject.mark, "value": format!("j{number}")}]);
            send(client, Method::PATCH, path(number), JSON_PATCH, patch.to_string())
        };
        self.row(subject, "JSON patch", writes, json_patch).await?;
        for (verb, content_type) in [("merge patch", MERGE), ("strategic merge patch", STRATEGIC)] {
            if content_type == STRATEGIC && !subject.is_builtin {
                continue;
            }
            let offset = verb.len() * WRITES;
            let patch = |client, number: usize| {
                send(client, Method::PATCH, path(number), content_type, subject.patch(offset + number).to_string())
            };
            self.row(subject, verb, writes, patch).await?;
        }
        let apply = |client, number: usize| {
            let target = format!("{}?fieldManager=bench&force=true", path(number));
            send(client, Method::PATCH, target, APPLY, (subject.object)(&name(number), WRITES + number).to_string())
        };
        self.row(subject, "apply", writes, apply).await?;
        if subject.has_status {
            let status = |client, number: usize| {
                let patch = json!({"status": {"phase": if number.is_multiple_of(2) { "Running" } else { "Pending" }}});
                send(client, Method::PATCH, format!("{}/status", path(number)), MERGE, patch.to_string())
            };
            self.row(subject, "merge patch of the status of", objects, status).await?;
        }
        let half = objects / 2;
        let delete = |client: Client, number| {
            let target = path(number);
            async move { client.call(&Call::new(Method::DELETE, target)).await.map(drop) }
        };
        self.row(subject, "delete", half, delete).await?;
        let delete_collection = |client: Client, _| {
            let target = collection.clone();
            async move { client.call(&Call::new(Method::DELETE, target)).await.map(drop) }
        };
        self.row(subject, &format!("deletecollection of {} of", objects - half), 1, delete_collection).await
    }

    /// One event to one watcher is an operation.
    async fn watch(&mut self, subject: &Subject) -> Result<(), Error> {
        let gvr = Gvr { group: subject.group.into(), version: "v1".into(), resource: subject.resource.into() };
        let (watchers, writes) = (self.bench.count(WATCHERS), self.bench.count(WATCHED_WRITES));
        let clients = self.servers.clients(watchers)?;
        let mut watches = Vec::new();
        for client in &clients {
            let api = client.dynamic(&gvr, "default");
            let version =
                api.list(&ListOptions { limit: 1, ..ListOptions::default() }).await?.metadata.resource_version;
            watches.push(api.watch(&ListOptions { resource_version: version, ..ListOptions::default() }).await?);
        }
        let before = self.servers.usage()?;
        let began = self.bench.env.now();
        let reading = join_all(watches.into_iter().map(|mut watch| async move {
            let mut seen = 0;
            while seen < writes
                && let Some(Ok(event)) = watch.next().await
            {
                seen += usize::from(matches!(event, WatchEvent::Modified(_)));
            }
            seen
        }));
        let writing = closed_loop(&self.bench.env, &clients[..1], writes, |client, number| {
            let target = format!("{}/o-0", subject.collection());
            let patch = subject.patch(WRITES * WATCHERS + number).to_string();
            async move { client.call(&Call::new(Method::PATCH, target).body(MERGE, patch)).await.map(drop) }
        });
        let (seen, written) = futures::join!(reading, writing);
        let after = self.servers.usage()?;
        written.must_succeed()?;
        let (delivered, due) = (seen.iter().sum::<usize>() as u64, (watchers * writes) as u64);
        let what = format!("watch: one event of a {} to one of {watchers} watchers", subject.name);
        let took = self.bench.env.now().duration_since(began);
        let measurement = Measurement::new("api", what, "embedded", delivered, took, (&before, &after));
        self.measured.push(measurement.errors(due - delivered));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_small_objects_have_one_size_and_patches_reach_the_mark() {
        assert_eq!(gadget("o-1", 7).to_string().len(), config_map("o-1", 1024, 7).to_string().len());
        for subject in &SUBJECTS {
            assert!((subject.object)("o-1", 7).pointer(subject.mark).is_some(), "{}", subject.name);
            assert_eq!(subject.patch(8).pointer(subject.mark), Some(&json!("8")), "{}", subject.name);
        }
    }
}
