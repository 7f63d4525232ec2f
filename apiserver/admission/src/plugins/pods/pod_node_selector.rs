//! PodNodeSelector: adds the node selector in a namespace's annotation to its pods.
//!
//! A configuration sets the default for namespaces without annotation, and limits the labels that a namespace's pods may use.
//! Corresponds to plugin/pkg/admission/podnodeselector. Off by default, as there.

use crate::plugins::pod_parts::metadata_entry;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

/// Node selectors by namespace, and under key `clusterDefaultNodeSelector` that of namespaces without annotation.
pub type NodeSelectors = BTreeMap<String, String>;

const DEFAULT: &str = "clusterDefaultNodeSelector";

#[derive(Default)]
pub struct PodNodeSelector(pub NodeSelectors);

#[async_trait]
impl AdmissionPlugin for PodNodeSelector {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let selector = self.selector_of(attributes).await?;
        let own = attributes.new_object().pointer("/spec/nodeSelector").and_then(Value::as_object);
        let conflicts = |(key, value): (&String, &Value)| own.and_then(|own| own.get(key)).is_some_and(|v| v != value);
        if selector.iter().any(conflicts) {
            return Err(
                attributes.forbidden("pod node label selector conflicts with its namespace node label selector")
            );
        }
        if let Some(pod) = attributes.object.as_deref_mut() {
            for (key, value) in selector {
                pod["spec"]["nodeSelector"][key] = value;
            }
        }
        self.validate(attributes).await
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let namespace = attributes.namespace;
        let listed = self.0.get(namespace).map(String::as_str).unwrap_or_default();
        let allowed = parsed(listed, &format!("configuration of namespace {namespace}"))?;
        let mut chosen = attributes.new_object()["spec"]["nodeSelector"].as_object().into_iter().flatten();
        if allowed.is_empty() || chosen.all(|(key, value)| allowed.get(key) == Some(value)) {
            return Ok(());
        }
        Err(attributes.forbidden("pod node label selector labels conflict with its namespace whitelist"))
    }
}

impl PodNodeSelector {
    async fn selector_of(&self, attributes: &Attributes<'_>) -> Result<Map<String, Value>, Status> {
        let (lookup, name) = (attributes.lookup, attributes.namespace);
        let Some(namespace) = lookup.find(ObjectKey::cluster("", "namespaces", name)).await? else {
            return Err(attributes.forbidden(format_args!("namespaces {name:?} not found")));
        };
        let namespace = namespace.value();
        match metadata_entry(&namespace, "annotations", ANNOTATION) {
            Some(written) => parsed(written, &format!("{ANNOTATION} annotation of namespace {name}")),
            None => parsed(self.0.get(DEFAULT).map(String::as_str).unwrap_or_default(), DEFAULT),
        }
    }
}

/// Parses `zone=a,disk=fast` into labels; `place` names the source in errors.
fn parsed(written: &str, place: &str) -> Result<Map<String, Value>, Status> {
    let terms = written.split(',').map(str::trim).filter(|term| !term.is_empty());
    terms
        .map(|term| {
            let unreadable = || Status::internal(format_args!("unable to parse the {place}: {term:?}"));
            let (key, value) = term.split_once('=').ok_or_else(unreadable)?;
            Ok((key.trim().to_owned(), json!(value.trim_start_matches('=').trim())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn the_namespaces_selector_is_added() {
        for (own, expected) in [
            (json!({}), Ok(json!({"zone": "a", "kind": ""}))),
            (json!({"disk": "fast", "zone": "a"}), Ok(json!({"disk": "fast", "zone": "a", "kind": ""}))),
            (
                json!({"zone": "b"}),
                Err(
                    r#"pods "p" is forbidden: pod node label selector conflicts with its namespace node label selector"#,
                ),
            ),
        ] {
            let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"nodeSelector": own}});
            let namespace = json!({"metadata": {"name": "a", "annotations": {ANNOTATION: "zone=a, kind="}}});
            let seen = Write::create("", "pods", pod)
                .beside("", "namespaces", namespace)
                .run(&PodNodeSelector::default())
                .await;
            match expected {
                Ok(selector) => assert_eq!(seen.passed()["spec"]["nodeSelector"], selector),
                Err(why) => assert_eq!(seen.message(), why),
            }
        }
    }

    #[tokio::test]
    async fn a_configuration_gives_a_default_and_a_list() {
        let selectors: NodeSelectors =
            [(DEFAULT, "zone=a"), ("b", "zone=b,disk=fast")].map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let plugin = PodNodeSelector(selectors);
        let run = async |namespace: &str, annotation: Option<&str>| {
            let annotations = annotation.map(|selector| json!({ANNOTATION: selector})).unwrap_or_default();
            let pod = json!({"metadata": {"name": "p", "namespace": namespace}, "spec": {}});
            let namespace = json!({"metadata": {"name": namespace, "annotations": annotations}});
            Write::create("", "pods", pod).beside("", "namespaces", namespace).run(&plugin).await
        };
        assert_eq!(run("a", None).await.passed()["spec"]["nodeSelector"], json!({"zone": "a"}));
        assert_eq!(run("a", Some("zone=c")).await.passed()["spec"]["nodeSelector"], json!({"zone": "c"}));
        assert_eq!(run("b", Some("zone=b")).await.passed()["spec"]["nodeSelector"], json!({"zone": "b"}));
        let message = "pods \"p\" is forbidden: pod node label selector labels conflict with its namespace whitelist";
        assert_eq!(run("b", None).await.message(), message);
    }
}
