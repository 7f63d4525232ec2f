//! PodTolerationRestriction: adds default tolerations from a namespace's annotations, and allows only the listed ones.
//!
//! Corresponds to plugin/pkg/admission/podtolerationrestriction. Off by default, as there.

use super::tolerations::{are_allowed, merge};
use crate::plugins::pod_parts::metadata_entry;
use crate::{AdmissionPlugin, Attributes, Operation};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use proto::quota::scope::is_best_effort;
use serde::Deserialize;
use serde_json::{Value, json};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const ALLOWED: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// The plugin, with the tolerations of namespaces without annotations, which are empty without a configuration.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PodTolerationRestriction {
    pub default: Vec<Value>,
    pub whitelist: Vec<Value>,
}

#[async_trait]
impl AdmissionPlugin for PodTolerationRestriction {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let mut tolerations = own(attributes.new_object());
        if attributes.operation == Operation::Create {
            let default = said_by_namespace(attributes, DEFAULTS).await?;
            tolerations = merge(default.as_ref().unwrap_or(&self.default), &tolerations);
        }
        if !is_best_effort(&attributes.new_object()["spec"]) {
            let pressure =
                json!({"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"});
            tolerations = merge(&tolerations, &[pressure]);
        }
        if let Some(pod) = attributes.object.as_deref_mut()
            && !tolerations.is_empty()
        {
            pod["spec"]["tolerations"] = json!(tolerations);
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        let tolerations = own(attributes.new_object());
        if !attributes.is("", "pods") || tolerations.is_empty() {
            return Ok(());
        }
        let allowed = said_by_namespace(attributes, ALLOWED).await?;
        if are_allowed(&tolerations, allowed.as_ref().unwrap_or(&self.whitelist)) {
            return Ok(());
        }
        let why = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace \
                   whitelist";
        Err(Status::failure(500, "", why))
    }
}

fn own(pod: &Value) -> Vec<Value> {
    pod.pointer("/spec/tolerations").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Returns the tolerations in a namespace's annotation; `None` if it is missing or empty.
async fn said_by_namespace(attributes: &Attributes<'_>, annotation: &str) -> Result<Option<Vec<Value>>, Status> {
    let (lookup, name) = (attributes.lookup, attributes.namespace);
    let Some(namespace) = lookup.find(ObjectKey::cluster("", "namespaces", name)).await? else {
        return Err(Status::not_found("", "namespaces", name));
    };
    let namespace = namespace.value();
    let written = metadata_entry(&namespace, "annotations", annotation).unwrap_or_default();
    if written.is_empty() {
        return Ok(None);
    }
    let list: Result<Vec<Value>, _> = serde_json::from_str(written);
    list.map(Some).map_err(|error| Status::failure(500, "", error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Outcome, Write};

    async fn in_namespace(annotations: Value, spec: Value) -> Outcome {
        let namespace = json!({"metadata": {"name": "a", "annotations": annotations}});
        let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec});
        let plugin = PodTolerationRestriction::default();
        Write::create("", "pods", pod).beside("", "namespaces", namespace).run(&plugin).await
    }

    #[tokio::test]
    async fn a_namespaces_tolerations_are_added_and_limited() {
        let tolerates = |key: &str| json!({"key": key, "operator": "Exists"});
        let list = |keys: &[&str]| json!(keys.iter().map(|key| tolerates(key)).collect::<Vec<_>>()).to_string();
        let spec = |keys: &[&str]| json!({"containers": [{"name": "c"}], "tolerations": keys.iter().map(|key| tolerates(key)).collect::<Vec<_>>()});

        let seen = in_namespace(json!({DEFAULTS: list(&["a"])}), spec(&["b"])).await.passed();
        assert_eq!(seen["spec"]["tolerations"], json!([tolerates("a"), tolerates("b")]));
        let seen = in_namespace(json!({}), spec(&[])).await.passed();
        assert_eq!(seen["spec"]["tolerations"], json!([]));
        let seen = in_namespace(json!({ALLOWED: list(&["a"])}), spec(&["a"])).await.passed();
        assert_eq!(seen["spec"]["tolerations"], json!([tolerates("a")]));
        let seen = in_namespace(json!({ALLOWED: list(&["a"]), DEFAULTS: list(&["b"])}), spec(&["a"])).await;
        assert_eq!(
            seen.message(),
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"
        );
        let seen = in_namespace(json!({DEFAULTS: "nothing"}), spec(&[])).await;
        assert_eq!(seen.error.map(|error| error.code), Some(500));
    }

    #[tokio::test]
    async fn pods_with_resources_bear_memory_pressure() {
        let container = json!({"name": "c", "resources": {"requests": {"memory": "1Mi"}}});
        let seen = in_namespace(json!({}), json!({"containers": [container]})).await.passed();
        assert_eq!(seen["spec"]["tolerations"][0]["key"], "node.kubernetes.io/memory-pressure");
    }
}
