//! The handlers of authorized requests: a file for each verb and for each subresource with behavior of its own.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints.

pub mod aggregated;
pub mod binding;
pub mod body;
pub mod component_status;
pub mod connect;
pub mod container_choice;
pub mod create;
pub mod delete;
pub mod eviction;
pub mod get;
pub mod list;
pub mod log;
mod log_messages;
pub mod non_resource;
mod numeric_annotations;
pub mod patch;
pub mod present;
pub mod proxy;
pub mod review;
mod selectors;
pub mod scale;
pub mod stream;
pub mod subresource;
#[cfg(test)]
mod tests;
pub mod token;
pub mod update;
pub mod upgrade;
pub mod watch;

use crate::answer;
use crate::media::{self, Form};
use crate::record::Record;
use crate::server::Server;
use admission::Operation;
use axum::body::Body;
use http::request::Parts;
use http::{HeaderMap, Method, Response, header};
use proto::resources::{Catalogue, Target, Text, Verb};
use proto::{Object, Status};
use registry::deletion::Deleted;
use registry::mutation::{Admission, Change, Mutation, Written};
use request::UserInfo;
use request::deadline;
use request::info::RequestInfo;
use request::options::DeleteOptions;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Longest name of a field manager that comes from a user agent.
const MAX_MANAGER_BYTES: usize = 128;

/// Longest duration of a write, even if the client allows more.
const WRITE_LIMIT: Duration = Duration::from_secs(34);

/// One authorized request and what its handler needs.
pub struct Call<'a> {
    pub server: &'a Arc<Server>,
    pub info: &'a RequestInfo,
    pub user: &'a UserInfo,
    pub parts: &'a Parts,
    pub record: &'a Record,
}

/// Answers a request with the handler of its path, or with 404 or 405.
pub async fn dispatch(call: &Call<'_>, body: Body) -> Result<Response<Body>, Status> {
    if let Some(remote) = call.server.upstreams.aggregation.of_path(&call.info.path) {
        return Ok(aggregated::answer(call, &remote, body).await);
    }
    if !call.info.is_resource {
        return non_resource::answer(call).await;
    }
    let target = match resolve(call) {
        // For a group that is not built in, Kubernetes' router answers with plain text instead of a Status.
        Err(status) if status.code == 404 && !has_builtin(&call.server.registry.catalogue.load(), &call.info.group) => {
            return Ok(non_resource::not_found());
        }
        resolved => resolved?,
    };
    call.record.warn(target.served().deprecation.clone().map(Text::into_owned));
    if call.info.subresource.is_empty() {
        answer_verb(call, &target, body).await
    } else {
        subresource::answer(call, &target, body).await
    }
}

async fn answer_verb(call: &Call<'_>, target: &Target, body: Body) -> Result<Response<Body>, Status> {
    let verb = verb_of(call, target)?;
    if target.row.prefix.is_none() {
        return review::answer(call, target, body).await;
    }
    match verb {
        Verb::Get => get::answer(call, target).await,
        Verb::List => list::answer(call, target).await,
        Verb::Watch => watch::answer(call, target).await,
        Verb::Create => create::answer(call, target, body).await,
        Verb::Update => update::answer(call, target, body).await,
        Verb::Patch => patch::answer(call, target, body).await,
        Verb::Delete => delete::one(call, target, body).await,
        Verb::DeleteCollection => delete::collection(call, target, body).await,
    }
}

/// Returns true if the catalogue serves built-in resources of the group.
pub fn has_builtin(catalogue: &Catalogue, group: &str) -> bool {
    let known = catalogue.groups().iter().find(|known| known.group == group);
    let mut versions = known.into_iter().flat_map(|known| &known.versions);
    versions
        .any(|version| catalogue.resources(group, version.as_str()).any(|target| target.served().schema.is_builtin()))
}

/// Returns the verb of a request for an object or a collection. Built-in resources have routes: a path without any verb is
/// 404, a method that belongs to no verb of the path is 405.
fn verb_of(call: &Call<'_>, target: &Target) -> Result<Verb, Status> {
    let (info, served) = (call.info, target.served());
    if !served.schema.is_builtin() {
        return custom_resource_verb(call, target);
    }
    let verbs: &[Verb] = match (info.watch_prefix, info.name.is_empty()) {
        (true, _) => &[Verb::Watch],
        (false, true) => &[Verb::List, Verb::Create, Verb::DeleteCollection],
        (false, false) => &[Verb::Get, Verb::Update, Verb::Patch, Verb::Delete],
    };
    if !verbs.iter().any(|verb| served.has_verb(*verb)) {
        return Err(Status::unknown_path());
    }
    let method = |verb: &Verb| match verb {
        Verb::Get | Verb::List | Verb::Watch => Method::GET,
        Verb::Create => Method::POST,
        Verb::Update => Method::PUT,
        Verb::Patch => Method::PATCH,
        Verb::Delete | Verb::DeleteCollection => Method::DELETE,
    };
    let found = verbs.iter().find(|verb| served.has_verb(**verb) && method(verb) == call.parts.method);
    match found.ok_or_else(method_not_allowed)? {
        Verb::List if info.verb == "watch" && !served.has_verb(Verb::Watch) => {
            Err(Status::method_not_allowed(&served.group, &served.resource, "watch"))
        }
        Verb::List if info.verb == "watch" => Ok(Verb::Watch),
        verb => Ok(*verb),
    }
}

/// Returns the verb of a request for a custom resource. These have no routes: one handler checks the verb first and the
/// name after it.
fn custom_resource_verb(call: &Call<'_>, target: &Target) -> Result<Verb, Status> {
    let (info, served) = (call.info, target.served());
    let verb = match info.verb.as_str() {
        "get" => Verb::Get,
        "list" => Verb::List,
        "watch" => Verb::Watch,
        "create" => Verb::Create,
        "update" => Verb::Update,
        "patch" => Verb::Patch,
        "delete" => Verb::Delete,
        "deletecollection" => Verb::DeleteCollection,
        other => return Err(Status::method_not_allowed(&served.group, &served.resource, other)),
    };
    if matches!(verb, Verb::Update | Verb::Patch) && info.name.is_empty() {
        if verb == Verb::Patch {
            patch::type_of(call, target)?;
        }
        return Err(Status::bad_request("name must be provided"));
    }
    if verb == Verb::Create && !info.name.is_empty() {
        return Err(method_not_allowed());
    }
    Ok(verb)
}

/// Returns the resource that the URL names, or an error. The URL of a namespaced object has a namespace, that of a
/// cluster-scoped one has none.
fn resolve(call: &Call<'_>) -> Result<Target, Status> {
    let info = call.info;
    let gvr = proto::Gvr::new(info.group.as_str(), info.version.as_str(), info.resource.as_str());
    let target = call.server.registry.catalogue.load().by_gvr(&gvr).ok_or_else(Status::unknown_path)?;
    let is_namespace = info.resource == "namespaces" && info.group.is_empty();
    if !target.row.is_namespaced() && !info.namespace.is_empty() && !is_namespace {
        return Err(Status::unknown_path());
    }
    if target.row.is_namespaced() && info.namespace.is_empty() {
        let served = target.served();
        if !info.name.is_empty() || !served.has_verb(Verb::List) {
            return Err(Status::unknown_path());
        }
        if !matches!(info.verb.as_str(), "list" | "watch") {
            let is_builtin = served.schema.is_builtin();
            return Err(if is_builtin { method_not_allowed() } else { Status::unknown_path() });
        }
    }
    Ok(target)
}

/// Builds the 405 of the router.
pub fn method_not_allowed() -> Status {
    let message = "the server does not allow this method on the requested resource";
    let mut status = Status::failure(405, "MethodNotAllowed", message);
    status.details = Some(Box::default());
    status
}

impl Call<'_> {
    /// Returns the namespace of the object in the store: empty for cluster-scoped objects, a Namespace among them.
    pub fn namespace(&self, target: &Target) -> &str {
        if target.row.is_namespaced() { &self.info.namespace } else { "" }
    }

    pub fn headers(&self) -> &HeaderMap {
        &self.parts.headers
    }

    /// Returns whether an object or a list may be compressed for the client.
    fn accepts_gzip(&self) -> bool {
        self.server.registry.gates.is_on("APIResponseCompression") && answer::accepts_gzip(self.headers())
    }

    fn pretty(&self) -> bool {
        media::wants_pretty(self.headers(), self.info.query.get("pretty"))
    }

    /// Returns the negotiated form of the response, which may be a table or metadata.
    pub fn form(&self) -> Result<Form, Status> {
        media::negotiate(self.headers(), self.pretty(), true, false)
    }

    /// Returns the negotiated form of a response that has no table and no metadata form.
    pub fn plain_form(&self) -> Result<Form, Status> {
        media::negotiate(self.headers(), self.pretty(), false, false)
    }

    /// Returns the negotiated form of a stream of events.
    pub fn stream_form(&self) -> Result<Form, Status> {
        media::negotiate(self.headers(), false, true, true)
    }

    /// Returns the field manager of this request: `named`, or its user agent up to the slash if that is empty.
    pub fn manager(&self, named: &str) -> String {
        if !named.is_empty() {
            return named.to_owned();
        }
        let agent = self.headers().get(header::USER_AGENT).and_then(|v| v.to_str().ok()).unwrap_or_default();
        let first = agent.split('/').next().unwrap_or_default();
        let mut manager: String = first.chars().filter(|c| !c.is_control()).collect();
        while manager.len() > MAX_MANAGER_BYTES {
            manager.pop();
        }
        manager
    }

    /// Creates an object. Here and below, the warnings reach the client whether the write succeeds or not.
    pub async fn create(&self, mutation: &mut Mutation<'_>, object: Value) -> registry::Result<Written> {
        let outcome = self.server.registry.create(mutation, object).await;
        self.record_outcome(mutation, outcome, |written| &written.object)
    }

    pub async fn update(&self, mutation: &mut Mutation<'_>, change: &dyn Change) -> registry::Result<Written> {
        let outcome = self.server.registry.update(mutation, change).await;
        self.record_outcome(mutation, outcome, |written| &written.object)
    }

    pub async fn delete(&self, mutation: &mut Mutation<'_>, options: &DeleteOptions) -> registry::Result<Deleted> {
        let outcome = self.server.registry.delete(mutation, options).await;
        self.record_outcome(mutation, outcome, |(Deleted::Gone(object) | Deleted::Pending(object))| object)
    }

    /// Runs admission for the body of an action that is not stored itself, such as a binding or an eviction.
    pub async fn admit(
        &self,
        operation: Operation,
        mutation: &mut Mutation<'_>,
        body: &mut Value,
    ) -> registry::Result<()> {
        self.admit_checked(operation, mutation, body, |_| Ok(())).await
    }

    /// Does the same as [`Self::admit`] and runs `check` between mutating and validating admission.
    pub async fn admit_checked(
        &self,
        operation: Operation,
        mutation: &mut Mutation<'_>,
        body: &mut Value,
        check: impl FnOnce(&Value) -> Result<(), Status> + Send,
    ) -> registry::Result<()> {
        let outcome = self.server.registry.admit_action(operation, mutation, body, check).await;
        self.record.take_notes(mutation);
        outcome
    }

    /// Records the warnings and annotations of a write, and the object that it wrote.
    fn record_outcome<T>(
        &self,
        mutation: &mut Mutation<'_>,
        outcome: registry::Result<T>,
        object: impl Fn(&T) -> &Arc<Object>,
    ) -> registry::Result<T> {
        self.record.take_notes(mutation);
        outcome.inspect(|outcome| self.record.set_stored(self.server, object(outcome)))
    }

    /// Returns when the request times out; `None` for long-running requests.
    fn deadline(&self) -> Option<Instant> {
        let limit = deadline::limit(self.info, self.server.request_timeout()).ok()??;
        Some(self.record.began() + limit.min(WRITE_LIMIT))
    }

    /// Builds the mutation of this request's object and subresource.
    pub fn mutation<'a>(
        &'a self,
        target: &'a Target,
        manager: &'a str,
        dry_run: bool,
        options: &'a Value,
    ) -> Mutation<'a> {
        Mutation {
            target,
            namespace: self.namespace(target),
            name: &self.info.name,
            subresource: &self.info.subresource,
            user: self.user,
            dry_run,
            admission: Admission::Named,
            deadline: self.deadline(),
            options,
            manager,
            warnings: Vec::new(),
            annotations: BTreeMap::new(),
            steps: self.record.steps(),
        }
    }
}
