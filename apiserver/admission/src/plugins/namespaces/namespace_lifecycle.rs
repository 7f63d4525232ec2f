//! NamespaceLifecycle: rejects creation in a missing or terminating namespace, and deletion of the immortal namespaces.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle. Kubernetes waits briefly for its cache before
//! it reads the store; this plugin does not wait, as the store is always up to date.

use crate::plugins::pod_parts::text;
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use proto::Status;
use proto::meta::status::Cause;
use std::collections::BTreeMap;

/// `kube-node-lease` is not among them, as in Kubernetes: it is created again.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];
/// Time after a namespace's deletion for which the store is read, because the cache may still show it as active.
const LIVE_LOOKUP_S: i64 = 30;
/// The most such namespaces; the oldest is dropped first.
const MAX_REMEMBERED: usize = 100;

#[derive(Default)]
pub struct NamespaceLifecycle {
    /// Recently deleted namespaces, with the time of the request.
    deleted: Mutex<BTreeMap<String, Timestamp>>,
}

impl NamespaceLifecycle {
    fn remember(&self, namespace: &str, now: Timestamp) {
        let mut deleted = self.deleted.lock();
        deleted.insert(namespace.to_owned(), now);
        if deleted.len() > MAX_REMEMBERED {
            let oldest = deleted.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                deleted.remove(&oldest);
            }
        }
    }

    fn was_deleted_lately(&self, namespace: &str, now: Timestamp) -> bool {
        let limit = SignedDuration::from_secs(LIVE_LOOKUP_S);
        self.deleted.lock().get(namespace).is_some_and(|at| now.duration_since(*at) < limit)
    }

    /// Returns the phase of a namespace; `None` if it does not exist.
    async fn phase(&self, attributes: &Attributes<'_>) -> Result<Option<String>, Status> {
        let name = attributes.namespace;
        let key = ObjectKey::cluster("", "namespaces", name);
        if let Some(cached) = attributes.lookup.get(key)? {
            let phase = text(&cached.value(), "/status/phase").to_owned();
            if phase == "Terminating" || !self.was_deleted_lately(name, attributes.now) {
                return Ok(Some(phase));
            }
        }
        let live = attributes.lookup.get_live(key).await?;
        Ok(live.map(|namespace| text(&namespace.value(), "/status/phase").to_owned()))
    }
}

#[async_trait]
impl AdmissionPlugin for NamespaceLifecycle {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let (group, resource) = (attributes.served.group.as_ref(), attributes.served.resource.as_ref());
        let is_namespace = (group, resource) == ("", "namespaces");
        if is_namespace {
            if attributes.operation == Operation::Delete {
                if IMMORTAL.contains(&attributes.name) {
                    return Err(Status::forbidden("", resource, attributes.name, "this namespace may not be deleted"));
                }
                self.remember(attributes.name, attributes.now);
            }
            return Ok(());
        }
        let tells_of_rights = (group, resource) == ("authorization.k8s.io", "localsubjectaccessreviews");
        if attributes.namespace.is_empty() || attributes.operation == Operation::Delete || tells_of_rights {
            return Ok(());
        }
        let namespace = attributes.namespace;
        match self.phase(attributes).await?.as_deref() {
            None => Err(Status::not_found("", "namespaces", namespace)),
            Some("Terminating") if attributes.operation == Operation::Create => {
                let mut refusal = attributes.forbidden(format_args!(
                    "unable to create new content in namespace {namespace} because it is being terminated"
                ));
                refusal.details.get_or_insert_default().causes.push(Cause {
                    reason: "NamespaceTerminating".into(),
                    message: format!("namespace {namespace} is being terminated"),
                    field: "metadata.namespace".into(),
                });
                Err(refusal)
            }
            Some(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;
    use serde_json::{Value, json};

    fn namespace(phase: &str) -> Value {
        json!({"metadata": {"name": "a"}, "status": {"phase": phase}})
    }

    fn create() -> Write {
        Write::create("", "configmaps", json!({"metadata": {"name": "cm", "namespace": "a"}}))
    }

    #[tokio::test]
    async fn a_namespace_must_be_there_and_stay() {
        let plugin = NamespaceLifecycle::default();
        let missing = create().run(&plugin).await.error.expect("refused");
        assert_eq!((missing.code, missing.message.as_str()), (404, r#"namespaces "a" not found"#));
        create().beside("", "namespaces", namespace("Active")).run(&plugin).await.passed();
        // It was just created, and is missing in the cache.
        create().only_live("", "namespaces", namespace("Active")).run(&plugin).await.passed();

        let ending = create().beside("", "namespaces", namespace("Terminating")).run(&plugin).await;
        let ending = ending.error.expect("refused");
        assert_eq!(
            (ending.code, ending.message.as_str()),
            (
                403,
                r#"configmaps "cm" is forbidden: unable to create new content in namespace a because it is being terminated"#
            )
        );
        let cause = &ending.details.expect("details").causes[0];
        assert_eq!(
            (cause.reason.as_str(), cause.message.as_str(), cause.field.as_str()),
            ("NamespaceTerminating", "namespace a is being terminated", "metadata.namespace")
        );
        let object = json!({"metadata": {"name": "cm", "namespace": "a"}});
        let update = Write::update("", "configmaps", object.clone(), object.clone());
        update.beside("", "namespaces", namespace("Terminating")).run(&plugin).await.passed();
        Write::delete("", "configmaps", object).run(&plugin).await.passed();
    }

    #[tokio::test]
    async fn after_a_deletion_the_store_is_asked() {
        let plugin = NamespaceLifecycle::default();
        let stale = |write: Write| {
            write.only_cached("", "namespaces", namespace("Active")).only_live(
                "",
                "namespaces",
                namespace("Terminating"),
            )
        };
        stale(create()).run(&plugin).await.passed();
        Write::delete("", "namespaces", namespace("Active")).run(&plugin).await.passed();
        assert_eq!(stale(create()).run(&plugin).await.error.map(|e| e.code), Some(403));
        stale(create().at("2026-01-01T00:00:30Z")).run(&plugin).await.passed();
    }

    #[tokio::test]
    async fn some_namespaces_never_go() {
        let plugin = NamespaceLifecycle::default();
        for (name, message) in [
            ("default", r#"namespaces "default" is forbidden: this namespace may not be deleted"#),
            ("kube-system", r#"namespaces "kube-system" is forbidden: this namespace may not be deleted"#),
            ("kube-public", r#"namespaces "kube-public" is forbidden: this namespace may not be deleted"#),
            ("kube-node-lease", ""),
        ] {
            let seen = Write::delete("", "namespaces", json!({"metadata": {"name": name}})).run(&plugin).await;
            assert_eq!(seen.message(), message);
        }
    }
}
