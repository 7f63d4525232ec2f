//! `FakeServer`: a small API server for tests of clients, with collections, revisions, watches, and faults on request.
//!
//! It has no kinds, selectors, validation or grace periods. What it has behaves as in Kubernetes. Corresponds to
//! k8s.io/client-go/kubernetes/fake.

use bytes::Bytes;
use component_base::env::Env;
use component_base::http::{Body, HttpService, read_all};
use futures::stream;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use proto::Status;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// The server; clones share its state.
#[derive(Clone)]
pub struct FakeServer {
    env: Env,
    state: Arc<Mutex<State>>,
    /// Number of changes, which wakes the watches.
    changes: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct State {
    revision: u64,
    /// Objects by collection (`pods`, `deployments.apps`) and key.
    objects: BTreeMap<(String, String), Value>,
    log: Vec<Logged>,
    /// Watches that start before this revision get 410.
    compacted: u64,
    refuses_initial_events: Option<Refusal>,
    refuses_resuming: Option<Status>,
    /// Watches that began in an earlier generation end.
    generation: u64,
    sends_garbage: bool,
    /// Answers to give instead of serving, in order.
    faults: VecDeque<Fault>,
    requests: Vec<Recorded>,
}

struct Logged {
    revision: u64,
    kind: &'static str,
    collection: String,
    object: Value,
}

/// The way in which a server refuses to stream initial events.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// An answer instead of a stream, as from kube-apiserver with the feature gate off.
    Answer(Status),
    /// The stream's only event, as from kube-apiserver on an etcd that cannot be asked for progress.
    Event(Status),
}

pub struct Fault {
    pub path_contains: &'static str,
    pub answer: Status,
    pub retry_after_s: Option<u32>,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub at: Instant,
    pub line: String,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// The parts of a path.
struct Target {
    collection: String,
    namespace: String,
    name: Option<String>,
    subresource: Option<String>,
}

impl Target {
    fn parse(path: &str) -> Option<Self> {
        let mut parts = path.trim_matches('/').split('/');
        let group = match parts.next()? {
            "api" => "",
            _ => parts.next()?,
        };
        let _version = parts.next()?;
        let mut rest: Vec<&str> = parts.collect();
        let namespace = if rest.first() == Some(&"namespaces") && rest.len() > 2 {
            let namespace = rest[1].to_owned();
            rest.drain(..2);
            namespace
        } else {
            String::new()
        };
        let resource = rest.first()?;
        let collection = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
        let part = |n: usize| rest.get(n).map(|part| (*part).to_owned());
        Some(Self { collection, namespace, name: part(1), subresource: part(2) })
    }

    fn holds(&self, collection: &str, object: &Value) -> bool {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        self.collection == collection && (self.namespace.is_empty() || self.namespace == namespace)
    }
}

impl FakeServer {
    pub fn new(env: &Env) -> Self {
        Self { env: env.clone(), state: Arc::default(), changes: Arc::new(watch::Sender::new(0)) }
    }

    pub fn service(&self) -> HttpService {
        let server = self.clone();
        HttpService::new(tower::service_fn(move |request| {
            let server = server.clone();
            async move { Ok::<_, Infallible>(server.answer(request).await) }
        }))
    }

    pub fn refuse_initial_events(&self, how: Refusal) {
        self.state.lock().refuses_initial_events = Some(how);
    }

    pub fn stream_initial_events(&self) {
        self.state.lock().refuses_initial_events = None;
    }

    /// Answers so to every watch that resumes from a revision.
    pub fn refuse_resuming(&self, answer: Status) {
        self.state.lock().refuses_resuming = Some(answer);
    }

    pub fn fault(&self, fault: Fault) {
        self.state.lock().faults.push_back(fault);
    }

    /// Ends every watch, like a server that restarts.
    pub fn cut_watches(&self) {
        self.state.lock().generation += 1;
        self.changes.send_modify(|n| *n += 1);
    }

    /// Sends a line that is no event to the next watch that has events.
    pub fn send_garbage(&self) {
        self.state.lock().sends_garbage = true;
    }

    /// Forgets all past events.
    pub fn compact(&self) {
        let mut state = self.state.lock();
        state.compacted = state.revision;
        state.log.clear();
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.state.lock().requests.clone()
    }

    /// Returns the number of requests whose line contains `text`.
    pub fn count(&self, text: &str) -> usize {
        self.state.lock().requests.iter().filter(|request| request.line.contains(text)).count()
    }

    pub fn get(&self, collection: &str, key: &str) -> Option<Value> {
        self.state.lock().objects.get(&(collection.to_owned(), key.to_owned())).cloned()
    }

    pub fn list(&self, collection: &str) -> Vec<Value> {
        let state = self.state.lock();
        state.objects.iter().filter(|((of, _), _)| of == collection).map(|(_, object)| object.clone()).collect()
    }

    /// Creates or replaces an object without a request.
    pub fn put(&self, collection: &str, object: Value) {
        self.state.lock().write(collection, object);
        self.changes.send_modify(|n| *n += 1);
    }

    pub fn remove(&self, collection: &str, key: &str) {
        self.state.lock().delete(collection, key);
        self.changes.send_modify(|n| *n += 1);
    }

    /// Sends a bookmark to every watch of a collection.
    pub fn bookmark(&self, collection: &str) {
        let mut state = self.state.lock();
        state.revision += 1;
        let revision = state.revision;
        let object = json!({"metadata": {"resourceVersion": revision.to_string()}});
        state.log.push(Logged { revision, kind: "BOOKMARK", collection: collection.to_owned(), object });
        drop(state);
        self.changes.send_modify(|n| *n += 1);
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let body = read_all(body, 1 << 20).await.expect("tests send short bodies");
        let line = format!("{} {}", parts.method, parts.uri);
        let recorded = Recorded { at: self.env.now(), line: line.clone(), headers: parts.headers, body: body.clone() };
        let fault = {
            let mut state = self.state.lock();
            state.requests.push(recorded);
            let due = state.faults.front().is_some_and(|fault| line.contains(fault.path_contains));
            if due { state.faults.pop_front() } else { None }
        };
        if let Some(fault) = fault {
            let mut answer = status(&fault.answer);
            if let Some(seconds) = fault.retry_after_s {
                answer.headers_mut().insert("retry-after", seconds.into());
            }
            return answer;
        }
        let query: BTreeMap<String, String> = parts
            .uri
            .query()
            .unwrap_or_default()
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        let Some(target) = Target::parse(parts.uri.path()) else { return status(&Status::unknown_path()) };
        match self.serve(&parts.method, target, &query, &body) {
            Ok(answer) => answer,
            Err(error) => status(&error),
        }
    }

    fn serve(
        &self,
        method: &Method,
        target: Target,
        query: &BTreeMap<String, String>,
        body: &[u8],
    ) -> Result<Response<Body>, Status> {
        let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).expect("JSON") };
        if query.contains_key("watch") {
            return self.watch(target, query);
        }
        let mut state = self.state.lock();
        let answer = match (method.as_str(), &target.name, &target.subresource) {
            ("GET", None, _) => state.page(&target, query),
            ("POST", Some(_), Some(subresource)) if subresource == "token" => {
                let life_s = body["spec"]["expirationSeconds"].as_i64().expect("a life");
                let expires = self.env.wall() + Duration::from_secs(life_s.unsigned_abs());
                state.revision += 1;
                json!({"status": {"token": format!("token-{}", state.revision), "expirationTimestamp": expires}})
            }
            ("POST", None, _) if target.collection == "tokenreviews.authentication.k8s.io" => {
                let user = body["spec"]["token"].as_str().and_then(|token| token.strip_prefix("token-of-"));
                json!({"status": {"authenticated": user.is_some(), "user": {"username": user}}})
            }
            ("POST", None, _) if target.collection == "subjectaccessreviews.authorization.k8s.io" => {
                json!({"status": {"allowed": body["spec"]["user"] == "ada"}})
            }
            ("POST", _, _) => state.create(&target, body)?,
            ("GET", Some(name), _) => state.existing(&target, name)?.clone(),
            ("PUT", Some(name), _) => {
                let current = state.existing(&target, name)?;
                let stale = body["metadata"]
                    .get("resourceVersion")
                    .is_some_and(|v| *v != current["metadata"]["resourceVersion"]);
                if stale {
                    return Err(Status::modified("", &target.collection, name));
                }
                state.write(&target.collection, body)
            }
            ("PATCH", Some(name), _) => {
                let mut object = state.existing(&target, name)?.clone();
                let meant = body["metadata"]["uid"].as_str().filter(|uid| object["metadata"]["uid"] != **uid);
                if meant.is_some() {
                    return Err(Status::modified("", &target.collection, name));
                }
                merge(&mut object, &body);
                state.write(&target.collection, object)
            }
            ("DELETE", Some(name), _) => {
                state.existing(&target, name)?;
                state.delete(&target.collection, &key(&target.namespace, name));
                json!({"status": "Success"})
            }
            _ => return Err(Status::method_not_allowed("", &target.collection, method.as_str())),
        };
        drop(state);
        self.changes.send_modify(|n| *n += 1);
        Ok(Response::new(Body::from(answer.to_string())))
    }

    fn watch(&self, target: Target, query: &BTreeMap<String, String>) -> Result<Response<Body>, Status> {
        let state = self.state.lock();
        let from: u64 = query.get("resourceVersion").and_then(|v| v.parse().ok()).unwrap_or(0);
        let initial = query.contains_key("sendInitialEvents");
        match &state.refuses_initial_events {
            Some(Refusal::Answer(status)) if initial => return Err(status.clone()),
            Some(Refusal::Event(status)) if initial => {
                return Ok(Response::new(Body::from(line("ERROR", &status.to_value()))));
            }
            _ => {}
        }
        if let Some(status) = state.refuses_resuming.as_ref().filter(|_| !initial) {
            return Err(status.clone());
        }
        let mut first = String::new();
        let mut cursor = from;
        if initial {
            for ((collection, _), object) in &state.objects {
                if target.holds(collection, object) {
                    first.push_str(&line("ADDED", object));
                }
            }
            let end = json!({"metadata": {
                "resourceVersion": state.revision.to_string(), "annotations": {"k8s.io/initial-events-end": "true"}
            }});
            first.push_str(&line("BOOKMARK", &end));
            cursor = state.revision;
        } else if from < state.compacted {
            return Err(Status::expired(format!("too old resource version: {from} ({})", state.compacted)));
        }
        let generation = state.generation;
        drop(state);
        let timeout_s: u64 = query.get("timeoutSeconds").and_then(|v| v.parse().ok()).unwrap_or(3600);
        let deadline = self.env.now() + Duration::from_secs(timeout_s);
        let first = (!first.is_empty()).then(|| Bytes::from(first));
        let feed = Feed { server: self.clone(), target, cursor, generation, deadline, ended: false };
        let start = (first, feed, self.changes.subscribe());
        let stream = stream::unfold(start, |(first, mut feed, mut changes)| async move {
            let bytes = match first {
                Some(first) => first,
                None => feed.next(&mut changes).await?,
            };
            Some((Ok::<_, Infallible>(bytes), (None, feed, changes)))
        });
        Ok(Response::new(Body::from_stream(stream)))
    }
}

/// A running watch.
struct Feed {
    server: FakeServer,
    target: Target,
    cursor: u64,
    generation: u64,
    deadline: Instant,
    ended: bool,
}

impl Feed {
    async fn next(&mut self, changes: &mut watch::Receiver<u64>) -> Option<Bytes> {
        loop {
            changes.borrow_and_update();
            let pending_events = self.pending_events()?;
            if !pending_events.is_empty() {
                return Some(Bytes::from(pending_events));
            }
            tokio::select! {
                biased;
                changed = changes.changed() => changed.expect("the server lives as long as its watches"),
                () = self.server.env.sleep_until(self.deadline) => return None,
            }
        }
    }

    /// Returns the lines of new events; `None` ends the watch.
    fn pending_events(&mut self) -> Option<String> {
        let mut state = self.server.state.lock();
        if self.ended || state.generation != self.generation {
            return None;
        }
        if self.cursor < state.compacted {
            self.ended = true;
            return Some(line("ERROR", &Status::expired("too old resource version").to_value()));
        }
        if self.cursor < state.revision && std::mem::take(&mut state.sends_garbage) {
            return Some("{]\n".to_owned());
        }
        let pending_events = &state.log[state.log.partition_point(|entry| entry.revision <= self.cursor)..];
        let wanted = pending_events.iter().filter(|entry| match entry.kind {
            "BOOKMARK" => entry.collection == self.target.collection,
            _ => self.target.holds(&entry.collection, &entry.object),
        });
        let lines = wanted.map(|entry| line(entry.kind, &entry.object)).collect();
        self.cursor = state.revision;
        Some(lines)
    }
}

impl State {
    fn existing(&self, target: &Target, name: &str) -> Result<&Value, Status> {
        let key = (target.collection.clone(), key(&target.namespace, name));
        self.objects.get(&key).ok_or_else(|| Status::not_found("", &target.collection, name))
    }

    fn create(&mut self, target: &Target, mut object: Value) -> Result<Value, Status> {
        let meta = &mut object["metadata"];
        if !target.namespace.is_empty() {
            meta["namespace"] = json!(target.namespace);
        }
        if let (None, Some(start)) = (meta["name"].as_str(), meta["generateName"].as_str()) {
            meta["name"] = json!(format!("{start}{}", self.revision + 1));
        }
        let name = meta["name"].as_str().unwrap_or_default().to_owned();
        if self.existing(target, &name).is_ok() {
            return Err(Status::already_exists("", &target.collection, &name));
        }
        if object["metadata"]["uid"].is_null() {
            object["metadata"]["uid"] = json!(format!("uid-{}", self.revision + 1));
        }
        Ok(self.write(&target.collection, object))
    }

    fn write(&mut self, collection: &str, mut object: Value) -> Value {
        self.revision += 1;
        let meta = &mut object["metadata"];
        meta["resourceVersion"] = json!(self.revision.to_string());
        let text = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
        let key = (collection.to_owned(), key(&text("namespace"), &text("name")));
        let kind = if self.objects.contains_key(&key) { "MODIFIED" } else { "ADDED" };
        self.objects.insert(key, object.clone());
        self.record(kind, collection, object.clone());
        object
    }

    fn delete(&mut self, collection: &str, key: &str) {
        if let Some(mut object) = self.objects.remove(&(collection.to_owned(), key.to_owned())) {
            self.revision += 1;
            object["metadata"]["resourceVersion"] = json!(self.revision.to_string());
            self.record("DELETED", collection, object);
        }
    }

    fn record(&mut self, kind: &'static str, collection: &str, object: Value) {
        self.log.push(Logged { revision: self.revision, kind, collection: collection.to_owned(), object });
    }

    /// Returns one page of a list. A continue token is the number of objects to skip.
    fn page(&self, target: &Target, query: &BTreeMap<String, String>) -> Value {
        let number = |name: &str| query.get(name).and_then(|v| v.parse::<usize>().ok());
        let skipped = number("continue").unwrap_or(0);
        let limit = number("limit").unwrap_or(usize::MAX);
        let all: Vec<&Value> = self
            .objects
            .iter()
            .filter(|((of, _), object)| target.holds(of, object))
            .map(|(_, object)| object)
            .collect();
        let items: Vec<&Value> = all.iter().skip(skipped).take(limit).copied().collect();
        let mut metadata = json!({"resourceVersion": self.revision.to_string()});
        if skipped + items.len() < all.len() {
            metadata["continue"] = json!((skipped + items.len()).to_string());
        }
        json!({"kind": "List", "metadata": metadata, "items": items})
    }
}

/// Returns the key of an object, as the client's caches and work queues write it.
fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

fn line(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn status(status: &Status) -> Response<Body> {
    let mut answer = Response::new(Body::from(status.to_value().to_string()));
    *answer.status_mut() = StatusCode::from_u16(status.code).expect("tests use real codes");
    answer
}

/// Merges like a strategic merge patch of any kind: lists of conditions merge by type, members are deleted by uid, and other lists
/// are replaced.
fn merge(into: &mut Value, patch: &Value) {
    match (into, patch) {
        (Value::Array(into), Value::Array(patch)) if !patch.is_empty() && patch.iter().all(is_deletion_by_uid) => {
            into.retain(|known| patch.iter().all(|gone| gone["uid"] != known["uid"]));
        }
        (Value::Array(into), Value::Array(patch))
            if patch.iter().all(is_condition) && into.iter().all(is_condition) =>
        {
            for condition in patch {
                if condition["$patch"] == "delete" {
                    into.retain(|known| known["type"] != condition["type"]);
                    continue;
                }
                match into.iter_mut().find(|known| known["type"] == condition["type"]) {
                    Some(known) => merge(known, condition),
                    None => into.push(condition.clone()),
                }
            }
        }
        (Value::Object(into), Value::Object(patch)) => {
            for (key, value) in patch {
                match value {
                    Value::Null => drop(into.remove(key)),
                    value => merge(into.entry(key.clone()).or_insert(Value::Null), value),
                }
            }
        }
        (into, patch) => *into = patch.clone(),
    }
}

fn is_deletion_by_uid(value: &Value) -> bool {
    value["$patch"] == "delete" && value["uid"].is_string()
}

fn is_condition(value: &Value) -> bool {
    value.get("type").is_some() && (value.get("status").is_some() || value.get("$patch").is_some())
}
