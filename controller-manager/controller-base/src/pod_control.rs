//! Applies a controller's plan about its pods: creates them in growing batches, records events, and keeps expectations
//! until the caches show the writes.
//!
//! Corresponds to RealPodControl in pkg/controller/controller_utils.go and slowStartBatch in
//! pkg/controller/replicaset/replica_set.go.

use crate::actions;
use crate::context::Actor;
use crate::controller_ref::concerned_controllers;
use crate::sequence::apply_in_sequence;
use client::{
    Action, ApplyError, Client, ConsistencyStore, Error, Event, ListOptions, Lister, Plan, ReconcileError, Stale,
    UidExpectations, apply_one,
};
use component_base::env::Env;
use futures::future::join_all;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Limit on the pods that one round over one object creates or deletes.
pub const BURST: usize = 500;

/// The messages of a controller's events about its pods. Their reasons are `SuccessfulCreate`, `FailedDelete`, ….
#[derive(Clone, Copy)]
pub struct EventTexts {
    pub succeeded: fn(Verb, owner: &str, pod: &str) -> String,
    /// `None` if the failure gets no event.
    pub failed: fn(Verb, owner: &str, pod: &str, cause: &Error) -> Option<String>,
}

/// The pods that a plan tried to create.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Creations {
    pub succeeded: u64,
    pub failed: u64,
}

/// What a controller did to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Delete,
}

/// The messages of the controllers whose pods are all alike.
const OF_REPLICAS: EventTexts = EventTexts {
    succeeded: |verb, _, pod| match verb {
        Verb::Create => format!("Created pod: {pod}"),
        Verb::Delete => format!("Deleted pod: {pod}"),
    },
    failed: |verb, _, _, cause| match verb {
        Verb::Create => Some(format!("Error creating: {cause}")),
        Verb::Delete => Some(format!("Error deleting: {cause}")),
    },
};

/// Cheap to clone; clones share their expectations.
#[derive(Clone)]
pub struct PodControl {
    texts: EventTexts,
    /// Creations and deletions that the pod informer has not shown yet, by the key of the owner.
    expectations: UidExpectations,
    /// Versions that were written of pods and owners, by the key of the owner.
    consistency: ConsistencyStore,
    /// Keys of owners for which the answer to a creation was lost: the pod may exist.
    unanswered: Arc<Mutex<BTreeSet<String>>>,
}

/// Neighbouring actions of one group are carried out together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ActionGroup {
    CreatePods,
    DeletePods,
    PatchPods,
    /// Actions on other objects, one after another.
    Other,
}

impl ActionGroup {
    fn of(action: &Action) -> Self {
        match action {
            Action::Create { gvr, .. } if *gvr == Pod::gvr() => ActionGroup::CreatePods,
            Action::Delete { gvr, .. } if *gvr == Pod::gvr() => ActionGroup::DeletePods,
            Action::Patch { gvr, .. } if *gvr == Pod::gvr() => ActionGroup::PatchPods,
            _ => ActionGroup::Other,
        }
    }
}

impl PodControl {
    /// `owners` and `pods` are the caches that the controller reads.
    pub fn new<K: Kind>(env: &Env, owners: &Lister<K>, pods: &Lister<Pod>) -> Self {
        let consistency = ConsistencyStore::default().reading(owners).reading(pods);
        let expectations = UidExpectations::new(env);
        Self { texts: OF_REPLICAS, expectations, consistency, unanswered: Arc::default() }
    }

    #[must_use]
    pub fn with_texts(self, texts: EventTexts) -> Self {
        Self { texts, ..self }
    }

    /// Adds the cache of a further kind that the controller reads and writes.
    #[must_use]
    pub fn reading<K: Kind>(self, cache: &Lister<K>) -> Self {
        Self { consistency: self.consistency.reading(cache), ..self }
    }

    /// Fails while a cache is older than this controller's writes of the owner and its pods. Call it before reading
    /// the caches.
    pub fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    /// Returns true if the cache shows every earlier creation and deletion of the owner's pods. Call it before reading
    /// the cache: an event in between then makes the cache seem older than it is, never newer.
    pub fn are_expectations_satisfied(&self, key: &str) -> bool {
        self.expectations.satisfied(key)
    }

    /// Call it when the owner was deleted, or replaced by another of its name.
    pub fn forget(&self, key: &str) {
        self.expectations.forget(key);
        self.consistency.clear(key);
        self.unanswered.lock().remove(key);
    }

    /// Makes a round fail whose cache may lack a pod, because the answer to its creation was lost. Asks the server for the
    /// present version of the pods; `ensure_ready` then waits until the cache has it. Call it after reading the cache.
    ///
    /// Deviation: a controller of Kubernetes tries again at once, and so creates a second pod.
    pub async fn confirm_creations<K: Kind>(
        &self,
        client: &Client,
        key: &str,
        owner: &K,
    ) -> Result<(), ReconcileError> {
        if !self.unanswered.lock().contains(key) {
            return Ok(());
        }
        let one = ListOptions { limit: 1, ..ListOptions::default() };
        let pods = client.api::<Pod>(owner.namespace()).list(&one).await?;
        if let Ok(version) = pods.metadata.resource_version.parse() {
            self.consistency.wrote_at(key, owner.uid(), &Pod::gvr(), version);
        }
        self.unanswered.lock().remove(key);
        Err(ReconcileError::behind("a pod may have been created without an answer"))
    }

    /// Lowers expectations by a pod's event, and returns the keys of the owners of kind `K` that the event concerns.
    pub fn observe_event<K: Kind>(&self, event: &Event<Pod>) -> Vec<String> {
        let pod = event.object();
        let keys = concerned_controllers::<K, _>(event);
        match event {
            Event::Added(_) if !pod.is_deleting() => {
                keys.iter().for_each(|key| self.expectations.creation_observed(key));
            }
            Event::Updated { .. } if !pod.is_deleting() => {}
            _ => keys.iter().for_each(|key| self.expectations.deletion_observed(key, pod.uid())),
        }
        keys
    }

    /// Carries out a plan about the pods of `owner`, in order. Stops at the first group of actions in which one fails,
    /// and returns the first error.
    pub async fn apply<K: Kind>(&self, actor: &Actor, key: &str, owner: &K, plan: &Plan) -> Result<(), ApplyError> {
        self.apply_and_count(actor, key, owner, plan, &mut Creations::default()).await
    }

    /// Carries out a plan, and counts the pods that it creates.
    pub async fn apply_and_count<K: Kind>(
        &self,
        actor: &Actor,
        key: &str,
        owner: &K,
        plan: &Plan,
        creations: &mut Creations,
    ) -> Result<(), ApplyError> {
        let actions = plan.actions.as_slice();
        self.expect(key, actions);
        let execution = Execution { control: self, actor, key, owner };
        let mut tried = 0;
        for group in actions.chunk_by(|one, other| ActionGroup::of(one) == ActionGroup::of(other)) {
            let result = match ActionGroup::of(&group[0]) {
                ActionGroup::CreatePods => execution.create(group, creations).await,
                ActionGroup::DeletePods => execution.delete(group).await,
                ActionGroup::PatchPods => execution.patch(group).await,
                ActionGroup::Other => execution.others(group).await,
            };
            tried += group.len();
            if let Err(error) = result {
                actions[tried..].iter().for_each(|action| self.lower_expectation(key, action));
                return Err(error);
            }
        }
        Ok(())
    }

    fn expect(&self, key: &str, actions: &[Action]) {
        let created = actions.iter().filter(|action| ActionGroup::of(action) == ActionGroup::CreatePods).count();
        let deleted: Vec<String> = actions.iter().filter_map(uid_of_deleted).map(str::to_owned).collect();
        if created > 0 || !deleted.is_empty() {
            self.expectations.expect(key, created, deleted);
        }
    }

    /// Removes the expectation of an action that was not carried out: no event will follow.
    fn lower_expectation(&self, key: &str, action: &Action) {
        match ActionGroup::of(action) {
            ActionGroup::CreatePods => self.expectations.creation_observed(key),
            ActionGroup::DeletePods => {
                self.expectations.deletion_observed(key, uid_of_deleted(action).unwrap_or_default());
            }
            ActionGroup::PatchPods | ActionGroup::Other => {}
        }
    }
}

fn uid_of_deleted(action: &Action) -> Option<&str> {
    match action {
        Action::Delete { options, .. } if ActionGroup::of(action) == ActionGroup::DeletePods => {
            Some(&options.preconditions.uid)
        }
        _ => None,
    }
}

/// Carries out actions in order, and records the version that each has written on behalf of the owner.
pub async fn apply_and_record_versions(
    actor: &Actor,
    consistency: &ConsistencyStore,
    key: &str,
    owner_uid: &str,
    actions: &[Action],
) -> Result<(), ApplyError> {
    apply_in_sequence(actor, actions, |action, answer| {
        if let (Some(gvr), Ok(answer)) = (action.gvr(), answer) {
            consistency.answered(key, owner_uid, gvr, answer);
        }
    })
    .await
}

/// Carries out one plan.
struct Execution<'a, K> {
    control: &'a PodControl,
    actor: &'a Actor,
    key: &'a str,
    owner: &'a K,
}

impl<K: Kind> Execution<'_, K> {
    async fn others(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let consistency = &self.control.consistency;
        apply_and_record_versions(self.actor, consistency, self.key, self.owner.uid(), actions).await
    }

    /// Creates pods in batches of 1, 2, 4, …. Each batch has to succeed before the next begins.
    async fn create(&self, actions: &[Action], creations: &mut Creations) -> Result<(), ApplyError> {
        let mut left = actions;
        for size in batches(actions.len()) {
            let (batch, rest) = left.split_at(size);
            left = rest;
            let mut failed = Ok(());
            for (action, result) in batch.iter().zip(self.apply_concurrently(batch).await) {
                match result {
                    Ok(answer) => {
                        self.record_version(&answer);
                        let name = answer["metadata"]["name"].as_str().unwrap_or_default();
                        self.record_success(Verb::Create, name);
                        creations.succeeded += 1;
                    }
                    Err(error) => {
                        self.control.lower_expectation(self.key, action);
                        if error.cause.may_have_succeeded() {
                            self.control.unanswered.lock().insert(self.key.to_owned());
                        }
                        self.record_failure(Verb::Create, &error);
                        creations.failed += 1;
                        failed = failed.and(Err(error));
                    }
                }
            }
            if failed.is_err() {
                left.iter().for_each(|action| self.control.lower_expectation(self.key, action));
                return failed;
            }
        }
        Ok(())
    }

    /// Deletes pods concurrently. A pod that no longer exists is not a failure.
    async fn delete(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let mut failed = Ok(());
        for (action, result) in actions.iter().zip(self.apply_concurrently(actions).await) {
            match (action, result) {
                (Action::Delete { name, .. }, Ok(_)) => {
                    self.record_success(Verb::Delete, name);
                }
                (_, Ok(_)) => {}
                (_, Err(error)) => {
                    self.control.lower_expectation(self.key, action);
                    if !error.cause.is_not_found() {
                        self.record_failure(Verb::Delete, &error);
                        failed = failed.and(Err(error));
                    }
                }
            }
        }
        failed
    }

    async fn patch(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let results = self.apply_concurrently(actions).await;
        results.iter().flatten().for_each(|answer| self.record_version(answer));
        let failed = results.into_iter().filter_map(Result::err).find(|error| !error.cause.is_not_found());
        failed.map_or(Ok(()), Err)
    }

    /// Records the version in the answer to a write of a pod. Deletions need none: expectations cover them.
    fn record_version(&self, answer: &Value) {
        self.control.consistency.answered(self.key, self.owner.uid(), &Pod::gvr(), answer);
    }

    async fn apply_concurrently(&self, actions: &[Action]) -> Vec<Result<Value, ApplyError>> {
        let Actor { client, recorder, .. } = self.actor;
        join_all(actions.iter().map(|action| apply_one(client, recorder, action))).await
    }

    fn record_success(&self, verb: Verb, pod: &str) {
        let message = (self.control.texts.succeeded)(verb, self.owner.name(), pod);
        self.record(actions::normal(self.owner, &format!("Successful{verb:?}"), message));
    }

    fn record_failure(&self, verb: Verb, error: &ApplyError) {
        let pod = match &error.failed {
            Action::Create { object, .. } => object["metadata"]["name"].as_str().unwrap_or_default(),
            Action::Delete { name, .. } => name,
            _ => "",
        };
        let message = (self.control.texts.failed)(verb, self.owner.name(), pod, &error.cause);
        if let Some(message) = message.filter(|_| !error.cause.is_namespace_terminating()) {
            self.record(actions::warning(self.owner, &format!("Failed{verb:?}"), message));
        }
    }

    fn record(&self, event: Action) {
        if let Action::Event(event) = event {
            self.actor.recorder.record(event);
        }
    }
}

/// Returns the sizes of the batches in which `count` pods are created: 1, 2, 4, …. If every creation would fail for the
/// same reason, few are tried.
pub fn batches(count: usize) -> Vec<usize> {
    let mut batches = Vec::new();
    let mut left = count;
    let mut size = 1;
    while left > 0 {
        let batch = size.min(left);
        batches.push(batch);
        left -= batch;
        size *= 2;
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::pod_template::pod_from_template;
    use client::Recorder;
    use component_base::http::{Body, HttpService};
    use http::{Method, Request, Response};
    use proto::kinds::api::apps::v1::ReplicaSet;
    use serde_json::json;
    use std::convert::Infallible;

    #[test]
    fn batches_double() {
        let cases: &[(usize, &[usize])] =
            &[(0, &[]), (1, &[1]), (3, &[1, 2]), (10, &[1, 2, 4, 3]), (15, &[1, 2, 4, 8])];
        for (count, expected) in cases {
            assert_eq!(batches(*count), *expected, "{count}");
        }
    }

    /// Returns a server that admits `room` pods, and the list of its requests, without those for events.
    fn server(room: usize) -> (HttpService, Arc<Mutex<Vec<String>>>) {
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = requests.clone();
        let answer = move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri().path());
            let is_event = line.contains("/events");
            let made = recorded.lock().iter().filter(|line| line.starts_with("POST")).count();
            if !is_event {
                recorded.lock().push(line);
            }
            let is_full = !is_event && request.method() == Method::POST && made >= room;
            let (code, body) = if is_full {
                let message = "pods \"web-x\" is forbidden: exceeded quota";
                (
                    403,
                    json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message}),
                )
            } else {
                (200, json!({"metadata": {"name": format!("web-{made}")}}))
            };
            let response = Response::builder().status(code).header("content-type", "application/json");
            let response = response.body(Body::from(body.to_string())).unwrap();
            async move { Ok::<_, Infallible>(response) }
        };
        (HttpService::new(tower::service_fn(answer)), requests)
    }

    fn actor(env: &Env, service: HttpService) -> Actor {
        let client = Client::from_service(env, service, "test");
        Actor { recorder: Recorder::new(&client, "test", ""), client }
    }

    fn owned_pod(owner: &ReplicaSet, name: &str) -> Pod {
        let mut pod = pod_from_template(&fixture::template("nginx:1"), owner);
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.uid = Some(format!("uid-{name}"));
        pod
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_ends_the_plan_and_lowers_expectations() {
        let env = Env::simulated(1);
        let (service, requests) = server(3);
        let actor = actor(&env, service);
        let owner = fixture::replica_set("web", "nginx:1", 10);
        let create = Action::create(&pod_from_template(&fixture::template("nginx:1"), &owner));
        let mut plan = Plan::of(vec![create; 10]);
        plan.push(Action::update_status(&owner));
        let control = PodControl::new(&env, &Lister::<ReplicaSet>::of([]), &Lister::of([]));
        let error = control.apply(&actor, "default/web", &owner, &plan).await.unwrap_err();
        assert!(error.cause.is_forbidden(), "{error}");
        let path = "POST /api/v1/namespaces/default/pods";
        assert_eq!(*requests.lock(), vec![path; 7], "1, 2 and 4, and then nothing, the status neither");
        assert!(!control.are_expectations_satisfied("default/web"), "three are to be seen");
        for name in ["a", "b", "c"] {
            assert!(!control.are_expectations_satisfied("default/web"));
            let added = Event::Added(Arc::new(owned_pod(&owner, name)));
            assert_eq!(control.observe_event::<ReplicaSet>(&added), ["default/web"]);
        }
        assert!(control.are_expectations_satisfied("default/web"));
        env.drain().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_is_waited_for_until_it_is_seen() {
        let env = Env::simulated(1);
        let (service, requests) = server(0);
        let actor = actor(&env, service);
        let owner = fixture::replica_set("web", "nginx:1", 0);
        let mut pod = owned_pod(&owner, "a");
        let plan = Plan::of([actions::delete_exactly(&pod), Action::update_status(&owner)]);
        let control = PodControl::new(&env, &Lister::<ReplicaSet>::of([]), &Lister::of([]));
        control.apply(&actor, "default/web", &owner, &plan).await.unwrap();
        let expected =
            ["DELETE /api/v1/namespaces/default/pods/a", "PUT /apis/apps/v1/namespaces/default/replicasets/web/status"];
        assert_eq!(*requests.lock(), expected);
        assert!(!control.are_expectations_satisfied("default/web"));
        let old = Arc::new(pod.clone());
        control.observe_event::<ReplicaSet>(&Event::Updated { old: old.clone(), new: old.clone() });
        assert!(!control.are_expectations_satisfied("default/web"), "something else about it");
        pod.metadata.deletion_timestamp = Some(fixture::time(1));
        control.observe_event::<ReplicaSet>(&Event::Updated { old, new: Arc::new(pod) });
        assert!(control.are_expectations_satisfied("default/web"));
        env.drain().await;
    }

    /// The pod of an unanswered creation may exist, so the owner waits until its cache is as new as the answer to a list.
    #[tokio::test(start_paused = true)]
    async fn an_unanswered_creation_is_asked_about() {
        let env = Env::simulated(1);
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let recorded = requests.clone();
        let answer = move |request: Request<Body>| {
            let is_event = request.uri().path().contains("/events");
            if !is_event {
                recorded.lock().push(format!("{} {}", request.method(), request.uri()));
            }
            let code = if request.method() == Method::POST && !is_event { 500 } else { 200 };
            let body = json!({"metadata": {"resourceVersion": "9"}, "items": []});
            let response = Response::builder().status(code).header("content-type", "application/json");
            let response = response.body(Body::from(body.to_string())).unwrap();
            async move { Ok::<_, Infallible>(response) }
        };
        let actor = actor(&env, HttpService::new(tower::service_fn(answer)));
        let owner = fixture::replica_set("web", "nginx:1", 1);
        let control = PodControl::new(&env, &Lister::<ReplicaSet>::of([]), &Lister::of([]));
        let plan = Plan::of([Action::create(&pod_from_template(&fixture::template("nginx:1"), &owner))]);
        control.apply(&actor, "default/web", &owner, &plan).await.unwrap_err();
        assert!(control.confirm_creations(&actor.client, "default/other", &owner).await.is_ok());
        assert!(control.confirm_creations(&actor.client, "default/web", &owner).await.unwrap_err().is_expected());
        assert!(control.confirm_creations(&actor.client, "default/web", &owner).await.is_ok(), "asked once");
        let path = "/api/v1/namespaces/default/pods";
        assert_eq!(*requests.lock(), [format!("POST {path}"), format!("GET {path}?limit=1")]);
        env.drain().await;
    }
}
