//! Carries out what a controller has planned about its pods: many at a time, in growing batches, remembering what the
//! caches have still to show, and says so in events.
//!
//! Corresponds to RealPodControl in pkg/controller/controller_utils.go and slowStartBatch in
//! pkg/controller/replicaset/replica_set.go.

use crate::actions;
use crate::context::Actor;
use crate::controller_ref::concerned_controllers;
use client::{Action, ApplyError, ConsistencyStore, Event, Lister, Plan, Stale, UidExpectations, apply};
use component_base::env::Env;
use futures::future::join_all;
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use serde_json::Value;

/// At most so many pods are made or deleted in one round over one object.
pub const BURST: usize = 500;

/// Cheap to clone; clones share what is expected.
#[derive(Clone)]
pub struct PodControl {
    /// What the pod informer has still to show, by the key of the owner.
    expectations: UidExpectations,
    /// What was written of pods and owners, by the key of the owner.
    consistency: ConsistencyStore,
}

/// What is done in one go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    CreatePods,
    DeletePods,
    PatchPods,
    /// Anything that is not about pods, one after another.
    Other,
}

impl Step {
    fn of(action: &Action) -> Self {
        match action {
            Action::Create { gvr, .. } if *gvr == Pod::gvr() => Step::CreatePods,
            Action::Delete { gvr, .. } if *gvr == Pod::gvr() => Step::DeletePods,
            Action::Patch { gvr, .. } if *gvr == Pod::gvr() => Step::PatchPods,
            _ => Step::Other,
        }
    }
}

impl PodControl {
    /// For a controller that reads these caches of its owners and of pods.
    pub fn new<K: Kind>(env: &Env, owners: &Lister<K>, pods: &Lister<Pod>) -> Self {
        let consistency = ConsistencyStore::default().reading(owners).reading(pods);
        Self { expectations: UidExpectations::new(env), consistency }
    }

    /// Whether the caches are as new as what was written of the owner and its pods. To be asked before they are read.
    pub fn ensure_ready(&self, key: &str) -> Result<(), Stale> {
        self.consistency.ensure_ready(key)
    }

    /// Whether the cache shows every pod that was made or deleted for the owner before. To be asked before the cache
    /// is read: what comes in between makes the cache look older than it is, never newer.
    pub fn is_caught_up(&self, key: &str) -> bool {
        self.expectations.satisfied(key)
    }

    /// The owner is gone, or another one has its name.
    pub fn forget(&self, key: &str) {
        self.expectations.forget(key);
        self.consistency.clear(key);
    }

    /// Counts down what was expected, and answers the keys of the owners of kind `K` that the pod's event concerns.
    pub fn note<K: Kind>(&self, event: &Event<Pod>) -> Vec<String> {
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

    /// Carries out a plan about the pods of `owner`, in order; neighbouring actions of one sort on pods go together.
    /// Answers the first error, after which nothing more is tried.
    pub async fn apply<K: Kind>(&self, actor: &Actor, key: &str, owner: &K, plan: &Plan) -> Result<(), ApplyError> {
        let actions = plan.actions.as_slice();
        self.expect(key, actions);
        let hands = Hands { control: self, actor, key, owner };
        let mut tried = 0;
        for step in actions.chunk_by(|one, other| Step::of(one) == Step::of(other)) {
            let result = match Step::of(&step[0]) {
                Step::CreatePods => hands.create(step).await,
                Step::DeletePods => hands.delete(step).await,
                Step::PatchPods => hands.patch(step).await,
                Step::Other => hands.others(step).await,
            };
            tried += step.len();
            if let Err(error) = result {
                actions[tried..].iter().for_each(|action| self.give_up(key, action));
                return Err(error);
            }
        }
        Ok(())
    }

    fn expect(&self, key: &str, actions: &[Action]) {
        let created = actions.iter().filter(|action| Step::of(action) == Step::CreatePods).count();
        let deleted: Vec<String> = actions.iter().filter_map(uid_of_deleted).map(str::to_owned).collect();
        if created > 0 || !deleted.is_empty() {
            self.expectations.expect(key, created, deleted);
        }
    }

    /// What was not done will not be seen.
    fn give_up(&self, key: &str, action: &Action) {
        match Step::of(action) {
            Step::CreatePods => self.expectations.creation_observed(key),
            Step::DeletePods => {
                self.expectations.deletion_observed(key, uid_of_deleted(action).unwrap_or_default());
            }
            Step::PatchPods | Step::Other => {}
        }
    }
}

fn uid_of_deleted(action: &Action) -> Option<&str> {
    match action {
        Action::Delete { options, .. } if Step::of(action) == Step::DeletePods => Some(&options.preconditions.uid),
        _ => None,
    }
}

/// Carries out actions in order, and remembers the version of what each has written on behalf of the owner.
pub async fn apply_remembering(
    actor: &Actor,
    consistency: &ConsistencyStore,
    key: &str,
    owner_uid: &str,
    actions: &[Action],
) -> Result<(), ApplyError> {
    for action in actions {
        let answers = apply(&actor.client, &actor.recorder, &Plan::of([action.clone()])).await?;
        if let (Some(gvr), Some(answer)) = (action.gvr(), answers.first()) {
            consistency.answered(key, owner_uid, gvr, answer);
        }
    }
    Ok(())
}

/// One plan in the making.
struct Hands<'a, K> {
    control: &'a PodControl,
    actor: &'a Actor,
    key: &'a str,
    owner: &'a K,
}

impl<K: Kind> Hands<'_, K> {
    async fn others(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let consistency = &self.control.consistency;
        apply_remembering(self.actor, consistency, self.key, self.owner.uid(), actions).await
    }

    /// In batches of 1, 2, 4, … each of which has to succeed before the next begins.
    async fn create(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let mut left = actions;
        for size in batches(actions.len()) {
            let (batch, rest) = left.split_at(size);
            left = rest;
            let mut failed = Ok(());
            for (action, result) in batch.iter().zip(self.all_at_once(batch).await) {
                match result {
                    Ok(answer) => {
                        self.remember(&answer);
                        let name = answer["metadata"]["name"].as_str().unwrap_or_default();
                        self.say(actions::normal(self.owner, "SuccessfulCreate", format!("Created pod: {name}")));
                    }
                    Err(error) => {
                        self.control.give_up(self.key, action);
                        self.say_failed("FailedCreate", "creating", &error);
                        failed = failed.and(Err(error));
                    }
                }
            }
            if failed.is_err() {
                left.iter().for_each(|action| self.control.give_up(self.key, action));
                return failed;
            }
        }
        Ok(())
    }

    /// All at once; a pod that is gone already is no failure.
    async fn delete(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let mut failed = Ok(());
        for (action, result) in actions.iter().zip(self.all_at_once(actions).await) {
            match (action, result) {
                (Action::Delete { name, .. }, Ok(_)) => {
                    self.say(actions::normal(self.owner, "SuccessfulDelete", format!("Deleted pod: {name}")));
                }
                (_, Ok(_)) => {}
                (_, Err(error)) => {
                    self.control.give_up(self.key, action);
                    if !error.cause.is_not_found() {
                        self.say_failed("FailedDelete", "deleting", &error);
                        failed = failed.and(Err(error));
                    }
                }
            }
        }
        failed
    }

    async fn patch(&self, actions: &[Action]) -> Result<(), ApplyError> {
        let results = self.all_at_once(actions).await;
        results.iter().flatten().for_each(|answer| self.remember(answer));
        let failed = results.into_iter().filter_map(Result::err).find(|error| !error.cause.is_not_found());
        failed.map_or(Ok(()), Err)
    }

    /// The answer to a write of a pod. (That to a deletion is not read, and expectations wait for it.)
    fn remember(&self, answer: &Value) {
        self.control.consistency.answered(self.key, self.owner.uid(), &Pod::gvr(), answer);
    }

    async fn all_at_once(&self, actions: &[Action]) -> Vec<Result<Value, ApplyError>> {
        let one = |action: &Action| {
            let plan = Plan::of([action.clone()]);
            async move {
                let answers = apply(&self.actor.client, &self.actor.recorder, &plan).await?;
                Ok(answers.into_iter().next().unwrap_or_default())
            }
        };
        join_all(actions.iter().map(one)).await
    }

    fn say_failed(&self, reason: &str, doing: &str, error: &ApplyError) {
        if !error.cause.is_namespace_terminating() {
            self.say(actions::warning(self.owner, reason, format!("Error {doing}: {}", error.cause)));
        }
    }

    fn say(&self, event: Action) {
        if let Action::Event(event) = event {
            self.actor.recorder.record(event);
        }
    }
}

/// The sizes of the batches in which `count` pods are created: 1, 2, 4, …, so that an error that all of them would
/// meet is met few times.
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
    use client::{Client, Recorder};
    use component_base::http::{Body, HttpService};
    use http::{Method, Request, Response};
    use parking_lot::Mutex;
    use proto::kinds::api::apps::v1::ReplicaSet;
    use serde_json::json;
    use std::convert::Infallible;
    use std::sync::Arc;

    #[test]
    fn batches_double() {
        let cases: &[(usize, &[usize])] =
            &[(0, &[]), (1, &[1]), (3, &[1, 2]), (10, &[1, 2, 4, 3]), (15, &[1, 2, 4, 8])];
        for (count, expected) in cases {
            assert_eq!(batches(*count), *expected, "{count}");
        }
    }

    /// A server with room for so many pods; what it was asked is noted, events apart.
    fn server(room: usize) -> (HttpService, Arc<Mutex<Vec<String>>>) {
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = asked.clone();
        let answer = move |request: Request<Body>| {
            let line = format!("{} {}", request.method(), request.uri().path());
            let is_event = line.contains("/events");
            let made = noted.lock().iter().filter(|line| line.starts_with("POST")).count();
            if !is_event {
                noted.lock().push(line);
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
        (HttpService::new(tower::service_fn(answer)), asked)
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
    async fn what_fails_ends_the_plan_and_is_not_waited_for() {
        let env = Env::simulated(1);
        let (service, asked) = server(3);
        let actor = actor(&env, service);
        let owner = fixture::replica_set("web", "nginx:1", 10);
        let create = Action::create(&pod_from_template(&fixture::template("nginx:1"), &owner));
        let mut plan = Plan::of(vec![create; 10]);
        plan.push(Action::update_status(&owner));
        let control = PodControl::new(&env, &Lister::<ReplicaSet>::of([]), &Lister::of([]));
        let error = control.apply(&actor, "default/web", &owner, &plan).await.unwrap_err();
        assert!(error.cause.is_forbidden(), "{error}");
        let path = "POST /api/v1/namespaces/default/pods";
        assert_eq!(*asked.lock(), vec![path; 7], "1, 2 and 4, and then nothing, the status neither");
        assert!(!control.is_caught_up("default/web"), "three are to be seen");
        for name in ["a", "b", "c"] {
            assert!(!control.is_caught_up("default/web"));
            let added = Event::Added(Arc::new(owned_pod(&owner, name)));
            assert_eq!(control.note::<ReplicaSet>(&added), ["default/web"]);
        }
        assert!(control.is_caught_up("default/web"));
        env.drain().await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_deletion_is_waited_for_until_it_is_seen() {
        let env = Env::simulated(1);
        let (service, asked) = server(0);
        let actor = actor(&env, service);
        let owner = fixture::replica_set("web", "nginx:1", 0);
        let mut pod = owned_pod(&owner, "a");
        let plan = Plan::of([actions::delete_exactly(&pod), Action::update_status(&owner)]);
        let control = PodControl::new(&env, &Lister::<ReplicaSet>::of([]), &Lister::of([]));
        control.apply(&actor, "default/web", &owner, &plan).await.unwrap();
        let expected =
            ["DELETE /api/v1/namespaces/default/pods/a", "PUT /apis/apps/v1/namespaces/default/replicasets/web/status"];
        assert_eq!(*asked.lock(), expected);
        assert!(!control.is_caught_up("default/web"));
        let old = Arc::new(pod.clone());
        control.note::<ReplicaSet>(&Event::Updated { old: old.clone(), new: old.clone() });
        assert!(!control.is_caught_up("default/web"), "something else about it");
        pod.metadata.deletion_timestamp = Some(fixture::time(1));
        control.note::<ReplicaSet>(&Event::Updated { old, new: Arc::new(pod) });
        assert!(control.is_caught_up("default/web"));
        env.drain().await;
    }
}
