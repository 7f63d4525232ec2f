//! `Plan`: a controller's decisions, as a value that can be printed, compared and applied.
//!
//! Each controller decides in a pure function; only `apply` sends requests. Reaching the goal may take several rounds: a
//! failure is reported, and the next reconcile makes the next plan.

use crate::cached::key;
use crate::client::Client;
use crate::error::Error;
use crate::events::{EventSpec, Recorder};
use crate::options::{DeleteOptions, Patch, PatchOptions};
use proto::gvk::Gvr;
use proto::kinds::Kind;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// One request to send, or one event to record.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Creates the object in the collection `gvr`.
    Create {
        gvr: Gvr,
        namespace: String,
        object: Value,
    },
    Update {
        gvr: Gvr,
        namespace: String,
        object: Value,
    },
    UpdateStatus {
        gvr: Gvr,
        namespace: String,
        object: Value,
    },
    Patch {
        gvr: Gvr,
        namespace: String,
        name: String,
        subresource: Option<String>,
        patch: Patch,
    },
    /// Posts to `binding`, `eviction`, ….
    CreateSubresource {
        gvr: Gvr,
        namespace: String,
        name: String,
        subresource: String,
        body: Value,
    },
    /// Puts to `finalize`, `approval`, ….
    UpdateSubresource {
        gvr: Gvr,
        namespace: String,
        name: String,
        subresource: String,
        body: Value,
    },
    Delete {
        gvr: Gvr,
        namespace: String,
        name: String,
        options: DeleteOptions,
    },
    Event(EventSpec),
}

impl Action {
    pub fn create<K: Kind>(object: &K) -> Self {
        Action::Create { gvr: K::gvr(), namespace: object.namespace().to_owned(), object: object.encode() }
    }

    pub fn update<K: Kind>(object: &K) -> Self {
        Action::Update { gvr: K::gvr(), namespace: object.namespace().to_owned(), object: object.encode() }
    }

    pub fn update_status<K: Kind>(object: &K) -> Self {
        Action::UpdateStatus { gvr: K::gvr(), namespace: object.namespace().to_owned(), object: object.encode() }
    }

    pub fn patch<K: Kind>(namespace: &str, name: &str, patch: Patch) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Action::Patch { gvr: K::gvr(), namespace, name, subresource: None, patch }
    }

    pub fn patch_status<K: Kind>(namespace: &str, name: &str, patch: Patch) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Action::Patch { gvr: K::gvr(), namespace, name, subresource: Some("status".into()), patch }
    }

    pub fn delete<K: Kind>(namespace: &str, name: &str, options: DeleteOptions) -> Self {
        Action::Delete { gvr: K::gvr(), namespace: namespace.to_owned(), name: name.to_owned(), options }
    }
}

impl Action {
    /// Returns the resource that the action writes; `None` for an event.
    pub fn gvr(&self) -> Option<&Gvr> {
        match self {
            Action::Create { gvr, .. }
            | Action::Update { gvr, .. }
            | Action::UpdateStatus { gvr, .. }
            | Action::Patch { gvr, .. }
            | Action::CreateSubresource { gvr, .. }
            | Action::UpdateSubresource { gvr, .. }
            | Action::Delete { gvr, .. } => Some(gvr),
            Action::Event(_) => None,
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Create { gvr, namespace, object } => {
                write!(f, "create {} {}", gvr.qualified_resource(), key(namespace, &name_of(object)))
            }
            Action::Update { gvr, namespace, object } => {
                write!(f, "update {} {}", gvr.qualified_resource(), key(namespace, &name_of(object)))
            }
            Action::UpdateStatus { gvr, namespace, object } => {
                write!(f, "update {}/status {}", gvr.qualified_resource(), key(namespace, &name_of(object)))?;
                object.get("status").map_or(Ok(()), |status| write!(f, " {status}"))
            }
            Action::Patch { gvr, namespace, name, subresource, patch } => {
                write!(f, "{} patch {}", patch.name(), gvr.qualified_resource())?;
                if let Some(subresource) = subresource {
                    write!(f, "/{subresource}")?;
                }
                write!(f, " {} {}", key(namespace, name), patch.value())
            }
            Action::CreateSubresource { gvr, namespace, name, subresource, body } => {
                write!(f, "post {}/{subresource} {} {body}", gvr.qualified_resource(), key(namespace, name))
            }
            Action::UpdateSubresource { gvr, namespace, name, subresource, body } => {
                write!(f, "put {}/{subresource} {} {body}", gvr.qualified_resource(), key(namespace, name))
            }
            Action::Delete { gvr, namespace, name, options } => {
                write!(f, "delete {} {}", gvr.qualified_resource(), key(namespace, name))?;
                options.grace_period_s.map_or(Ok(()), |grace_period_s| write!(f, " grace={grace_period_s}s"))?;
                options.propagation.map_or(Ok(()), |propagation| write!(f, " {}", propagation.as_str()))?;
                let uid = &options.preconditions.uid;
                if uid.is_empty() { Ok(()) } else { write!(f, " uid={uid}") }
            }
            Action::Event(event) => write!(f, "event {event}"),
        }
    }
}

/// Returns the object's name, such as `web`, or `web-*` if the server is to generate the rest.
fn name_of(object: &Value) -> String {
    let meta = &object["metadata"];
    match (meta["name"].as_str().filter(|name| !name.is_empty()), meta["generateName"].as_str()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}*"),
        (None, None) => String::new(),
    }
}

/// Actions, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    /// Time after which the key is reconciled again in any case.
    pub requeue_after: Option<Duration>,
}

impl Plan {
    /// Makes a plan of these actions, without a requeue.
    pub fn of(actions: impl IntoIterator<Item = Action>) -> Self {
        Self { actions: actions.into_iter().collect(), requeue_after: None }
    }

    pub fn is_empty(&self) -> bool {
        self.actions.is_empty()
    }

    pub fn push(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Requeues after `delay`, or sooner if requested before.
    pub fn requeue_within(&mut self, delay: Duration) {
        self.requeue_after = Some(self.requeue_after.map_or(delay, |earlier| earlier.min(delay)));
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for action in &self.actions {
            writeln!(f, "{action}")?;
        }
        self.requeue_after.map_or(Ok(()), |delay| writeln!(f, "look again after {delay:?}"))
    }
}

/// The first action that failed. Those before it are done, and those after it were not tried.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{failed}: {cause}")]
pub struct ApplyError {
    pub done: usize,
    pub failed: Action,
    #[source]
    pub cause: Error,
}

/// Applies a plan in order. Returns the server's answer to each action: to a creation only the metadata, and null for
/// deletes and events.
pub async fn apply(client: &Client, recorder: &Recorder, plan: &Plan) -> Result<Vec<Value>, ApplyError> {
    let mut answers = Vec::with_capacity(plan.actions.len());
    for action in &plan.actions {
        match apply_one(client, recorder, action).await {
            Ok(answer) => answers.push(answer),
            Err(error) => return Err(ApplyError { done: answers.len(), ..error }),
        }
    }
    Ok(answers)
}

/// Applies one action, and returns the answer as `apply` does.
pub async fn apply_one(client: &Client, recorder: &Recorder, action: &Action) -> Result<Value, ApplyError> {
    tracing::debug!(%action, "acting");
    let answer = act(client, recorder, action).await;
    answer.map_err(|cause| ApplyError { done: 0, failed: action.clone(), cause })
}

/// Applies one action without decoding the server's answer to a patch, for those who do not read it.
pub async fn apply_unread(client: &Client, recorder: &Recorder, action: &Action) -> Result<(), ApplyError> {
    let Action::Patch { gvr, namespace, name, subresource, patch } = action else {
        return apply_one(client, recorder, action).await.map(drop);
    };
    tracing::debug!(%action, "acting");
    let subresource = subresource.as_deref().unwrap_or_default();
    let api = client.dynamic(gvr, namespace);
    let answer = client.call(&api.patch_call(name, subresource, patch, &PatchOptions::default())).await;
    answer.map(drop).map_err(|cause| ApplyError { done: 0, failed: action.clone(), cause })
}

async fn act(client: &Client, recorder: &Recorder, action: &Action) -> Result<Value, Error> {
    match action {
        Action::Create { gvr, namespace, object } => client.dynamic(gvr, namespace).create_described(object).await,
        Action::Update { gvr, namespace, object } => client.dynamic(gvr, namespace).update(object).await,
        Action::UpdateStatus { gvr, namespace, object } => client.dynamic(gvr, namespace).update_status(object).await,
        Action::Patch { gvr, namespace, name, subresource, patch } => {
            let api = client.dynamic(gvr, namespace);
            let subresource = subresource.as_deref().unwrap_or_default();
            api.patch_subresource(name, subresource, patch, &PatchOptions::default()).await
        }
        Action::CreateSubresource { gvr, namespace, name, subresource, body } => {
            client.dynamic(gvr, namespace).create_subresource(name, subresource, body).await
        }
        Action::UpdateSubresource { gvr, namespace, name, subresource, body } => {
            client.dynamic(gvr, namespace).update_subresource(name, subresource, body).await
        }
        Action::Delete { gvr, namespace, name, options } => {
            client.dynamic(gvr, namespace).delete(name, options).await.map(|()| Value::Null)
        }
        Action::Event(event) => {
            recorder.record(event.clone());
            Ok(Value::Null)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{EventType, Regarding};
    use crate::options::Propagation;
    use expect_test::expect;
    use proto::kinds::api::core::v1::{Node, Pod};
    use serde_json::json;

    #[test]
    fn a_plan_reads_as_a_list() {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.generate_name = Some("web-5d4f-".into());
        let regarding = Regarding {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            namespace: "shop".into(),
            name: "web-5d4f".into(),
            ..Regarding::default()
        };
        let mut named = pod.clone();
        named.metadata.name = Some("web-5d4f-abcde".into());
        let delete = DeleteOptions {
            grace_period_s: Some(0),
            propagation: Some(Propagation::Background),
            ..DeleteOptions::with_uid("u-1")
        };
        let mut plan = Plan {
            actions: vec![
                Action::create(&pod),
                Action::Event(EventSpec::new(&regarding, EventType::Normal, "SuccessfulCreate", "Created pod: x")),
                Action::update(&named),
                Action::UpdateStatus {
                    gvr: Pod::gvr(),
                    namespace: "shop".into(),
                    object: json!({"metadata": {"name": "x"}, "status": {"phase": "Failed"}}),
                },
                Action::patch::<Node>("", "node-1", Patch::Merge(json!({"spec": {"unschedulable": true}}))),
                Action::patch_status::<Node>("", "node-1", Patch::Strategic(json!({"status": {}}))),
                Action::delete::<Pod>("shop", "web-5d4f-abcde", delete),
            ],
            requeue_after: None,
        };
        plan.requeue_within(Duration::from_secs(9));
        plan.requeue_within(Duration::from_secs(30));
        expect![[r#"
            create pods shop/web-5d4f-*
            event Normal SuccessfulCreate ReplicaSet shop/web-5d4f: Created pod: x
            update pods shop/web-5d4f-abcde
            update pods/status shop/x {"phase":"Failed"}
            merge patch nodes node-1 {"spec":{"unschedulable":true}}
            strategic patch nodes/status node-1 {"status":{}}
            delete pods shop/web-5d4f-abcde grace=0s Background uid=u-1
            look again after 9s
        "#]]
        .assert_eq(&plan.to_string());
    }
}
