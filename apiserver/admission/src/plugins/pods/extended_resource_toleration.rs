//! ExtendedResourceToleration: pods that request an extended resource tolerate the taint of the same name.
//!
//! Corresponds to plugin/pkg/admission/extendedresourcetoleration. Off by default, as there.

use crate::plugins::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use proto::quota::amounts;
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub struct ExtendedResourceToleration;

#[async_trait]
impl AdmissionPlugin for ExtendedResourceToleration {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        let wanted = extended_resources(&pod["spec"]);
        let is_there = |name: &String| {
            items(pod, "/spec/tolerations").any(|toleration| {
                text(toleration, "/key") == name
                    && text(toleration, "/operator") == "Exists"
                    && text(toleration, "/effect").is_empty()
                    && toleration.get("tolerationSeconds").is_none()
            })
        };
        let missing: Vec<Value> = wanted
            .iter()
            .filter(|name| !is_there(name))
            .map(|name| json!({"key": name, "operator": "Exists"}))
            .collect();
        if !missing.is_empty() {
            let tolerations = &mut pod["spec"]["tolerations"];
            let mut all = tolerations.as_array().cloned().unwrap_or_default();
            all.extend(missing);
            *tolerations = Value::Array(all);
        }
        Ok(())
    }
}

/// Returns the requested resources outside Kubernetes' own domain.
fn extended_resources(spec: &Value) -> BTreeSet<String> {
    let all = items(spec, "/containers").chain(items(spec, "/initContainers"));
    let requested = all.flat_map(|container| amounts(container.pointer("/resources/requests")).into_keys());
    requested.filter(|name| name.contains('/') && !name.contains("kubernetes.io/")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn pods_tolerate_what_they_ask_for() {
        let asks = |name: &str| json!({"resources": {"requests": {name: "1", "cpu": "1"}}});
        let exists = |key: &str| json!({"key": key, "operator": "Exists"});
        for (spec, expected) in [
            (
                json!({"containers": [asks("b.com/gpu")], "initContainers": [asks("a.com/x")]}),
                json!([exists("a.com/x"), exists("b.com/gpu")]),
            ),
            (
                json!({"containers": [asks("b.com/gpu")], "tolerations": [exists("b.com/gpu")]}),
                json!([exists("b.com/gpu")]),
            ),
            (json!({"containers": [asks("memory")]}), Value::Null),
        ] {
            let pod = json!({"metadata": {"name": "p"}, "spec": spec});
            let pod = Write::create("", "pods", pod).run(&ExtendedResourceToleration).await.passed();
            assert_eq!(pod["spec"]["tolerations"], expected);
        }
    }
}
