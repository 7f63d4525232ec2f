//! PodNodeSelector: a namespace's annotation says on which nodes its pods may run.
//!
//! Corresponds to plugin/pkg/admission/podnodeselector, without a configuration file: the annotation alone counts.
//! Off by default, as there.

use super::pod_parts::metadata_entry;
use super::{AdmissionPlugin, Attributes, ObjectKey};
use async_trait::async_trait;
use proto::Status;
use serde_json::{Map, Value, json};

const ANNOTATION: &str = "scheduler.alpha.kubernetes.io/node-selector";

pub struct PodNodeSelector;

#[async_trait]
impl AdmissionPlugin for PodNodeSelector {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let selector = selector_of(attributes).await?;
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
        Ok(())
    }
}

async fn selector_of(attributes: &Attributes<'_>) -> Result<Map<String, Value>, Status> {
    let (lookup, name) = (attributes.lookup, attributes.namespace);
    let Some(namespace) = lookup.find(ObjectKey::cluster("", "namespaces", name)).await? else {
        return Err(attributes.forbidden(format_args!("namespaces {name:?} not found")));
    };
    let namespace = namespace.value();
    let written = metadata_entry(&namespace, "annotations", ANNOTATION).unwrap_or_default();
    let terms = written.split(',').map(str::trim).filter(|term| !term.is_empty());
    terms
        .map(|term| {
            let (key, value) = term.split_once('=').ok_or_else(|| {
                Status::internal(format_args!(
                    "unable to parse the {ANNOTATION} annotation of namespace {name}: {term:?}"
                ))
            })?;
            Ok((key.trim().to_owned(), json!(value.trim_start_matches('=').trim())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::Write;
    use super::*;

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
            let seen = Write::create("", "pods", pod).beside("", "namespaces", namespace).run(&PodNodeSelector).await;
            match expected {
                Ok(selector) => assert_eq!(seen.passed()["spec"]["nodeSelector"], selector),
                Err(why) => assert_eq!(seen.message(), why),
            }
        }
    }
}
