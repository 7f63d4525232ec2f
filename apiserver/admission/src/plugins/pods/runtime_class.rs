//! RuntimeClass: sets the overhead, node selector and tolerations of a pod's RuntimeClass.
//!
//! Corresponds to plugin/pkg/admission/runtimeclass.

use crate::plugins::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use proto::Status;
use proto::meta::quantity::Quantity;
use serde_json::Value;
use std::sync::Arc;

const OTHER_OVERHEAD: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const OVERHEAD_WITHOUT_CLASS: &str =
    "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

pub struct RuntimeClass;

#[async_trait]
impl AdmissionPlugin for RuntimeClass {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let Some(class) = class_of(attributes).await? else { return Ok(()) };
        let spec = &attributes.new_object()["spec"];
        if let Some(overhead) = class.pointer("/overhead/podFixed").filter(|overhead| !overhead.is_null())
            && spec.get("overhead").is_some_and(|given| !is_same(given, overhead))
        {
            return Err(attributes.forbidden(OTHER_OVERHEAD));
        }
        let selector = class.pointer("/scheduling/nodeSelector").and_then(Value::as_object);
        for (key, value) in selector.into_iter().flatten() {
            if let Some(given) = spec.pointer("/nodeSelector").and_then(|map| map.get(key)).filter(|g| *g != value) {
                return Err(attributes.forbidden(format_args!(
                    "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                    value.as_str().unwrap_or_default(),
                    given.as_str().unwrap_or_default()
                )));
            }
        }
        if let Some(pod) = attributes.object.as_deref_mut() {
            apply(&class, &mut pod["spec"]);
        }
        Ok(())
    }

    async fn validate(&self, attributes: &Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let class = class_of(attributes).await?;
        let defined = class.as_ref().and_then(|class| class.pointer("/overhead/podFixed")).filter(|o| !o.is_null());
        let given = attributes.new_object().pointer("/spec/overhead").filter(|o| !o.is_null());
        match (defined, given) {
            (None, Some(_)) => Err(attributes.forbidden(OVERHEAD_WITHOUT_CLASS)),
            (Some(defined), given) if !given.is_some_and(|given| is_same(given, defined)) => {
                Err(attributes.forbidden(OTHER_OVERHEAD))
            }
            _ => Ok(()),
        }
    }
}

async fn class_of(attributes: &Attributes<'_>) -> Result<Option<Arc<Value>>, Status> {
    let name = text(attributes.new_object(), "/spec/runtimeClassName");
    if !attributes.is("", "pods") || name.is_empty() {
        return Ok(None);
    }
    match attributes.lookup.find(ObjectKey::cluster("node.k8s.io", "runtimeclasses", name)).await? {
        Some(class) => Ok(Some(class.value())),
        None => Err(attributes.forbidden(format_args!("pod rejected: RuntimeClass {name:?} not found"))),
    }
}

/// Tells whether both have the same quantities, whatever their notation.
fn is_same(a: &Value, b: &Value) -> bool {
    let amounts = |value: &Value| -> Vec<(String, Option<Quantity>)> {
        let fields = value.as_object().into_iter().flatten();
        let mut all: Vec<_> =
            fields.map(|(key, v)| (key.clone(), v.as_str().and_then(|v| Quantity::parse(v).ok()))).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    amounts(a) == amounts(b)
}

fn apply(class: &Value, spec: &mut Value) {
    if let Some(overhead) = class.pointer("/overhead/podFixed").filter(|overhead| !overhead.is_null()) {
        spec["overhead"] = overhead.clone();
    }
    for (key, value) in class.pointer("/scheduling/nodeSelector").and_then(Value::as_object).into_iter().flatten() {
        spec["nodeSelector"][key] = value.clone();
    }
    let of_class: Vec<Value> = items(class, "/scheduling/tolerations").cloned().collect();
    if !of_class.is_empty() {
        spec["tolerations"] = Value::Array(merged(spec, of_class));
    }
}

/// Merges both lists and drops covered tolerations; of two equal ones, the later one.
fn merged(spec: &Value, more: Vec<Value>) -> Vec<Value> {
    let all: Vec<Value> = items(spec, "/tolerations").cloned().chain(more).collect();
    let is_covered = |at: usize| {
        all.iter().enumerate().any(|(other, toleration)| {
            other != at && covers(toleration, &all[at]) && (other < at || !covers(&all[at], toleration))
        })
    };
    (0..all.len()).filter(|at| !is_covered(*at)).map(|at| all[at].clone()).collect()
}

/// Tells whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let field = |toleration: &Value, key: &str| text(toleration, key).to_owned();
    let (key, effect) = (field(wide, "/key"), field(wide, "/effect"));
    if !key.is_empty() && key != field(narrow, "/key") || !effect.is_empty() && effect != field(narrow, "/effect") {
        return false;
    }
    if effect == "NoExecute" {
        let seconds = |toleration: &Value| toleration["tolerationSeconds"].as_i64();
        match (seconds(wide), seconds(narrow)) {
            (Some(_), None) => return false,
            (Some(wide), Some(narrow)) if wide < narrow => return false,
            _ => {}
        }
    }
    match field(wide, "/operator").as_str() {
        "Exists" => true,
        "" | "Equal" => {
            matches!(field(narrow, "/operator").as_str(), "" | "Equal")
                && field(wide, "/value") == field(narrow, "/value")
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Outcome, Write};
    use serde_json::json;

    async fn create(spec: Value) -> Outcome {
        let heavy = json!({
            "metadata": {"name": "heavy"},
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "500m"}},
            "scheduling": {
                "nodeSelector": {"kind": "big"},
                "tolerations": [{"key": "big", "operator": "Exists"}, {"key": "x", "operator": "Exists"}],
            },
        });
        Write::create("", "pods", json!({"metadata": {"name": "p", "namespace": "a"}, "spec": spec}))
            .beside("node.k8s.io", "runtimeclasses", json!({"metadata": {"name": "plain"}, "handler": "h"}))
            .only_live("node.k8s.io", "runtimeclasses", heavy)
            .run(&RuntimeClass)
            .await
    }

    #[tokio::test]
    async fn pods_take_on_what_their_class_says() {
        let exists = |key: &str| json!({"key": key, "operator": "Exists"});
        for (spec, expected) in [
            (json!({}), json!({})),
            (json!({"runtimeClassName": "plain"}), json!({"runtimeClassName": "plain"})),
            (
                json!({"runtimeClassName": "heavy"}),
                json!({
                    "runtimeClassName": "heavy", "overhead": {"cpu": "500m"}, "nodeSelector": {"kind": "big"},
                    "tolerations": [exists("big"), exists("x")],
                }),
            ),
            (
                json!({
                    "runtimeClassName": "heavy", "overhead": {"cpu": "0.5"}, "nodeSelector": {"a": "b"},
                    "tolerations": [{"key": "x", "value": "1"}, exists("big")],
                }),
                json!({
                    "runtimeClassName": "heavy", "overhead": {"cpu": "500m"}, "nodeSelector": {"a": "b", "kind": "big"},
                    "tolerations": [exists("big"), exists("x")],
                }),
            ),
        ] {
            assert_eq!(create(spec).await.passed()["spec"], expected);
        }
    }

    #[tokio::test]
    async fn refusals() {
        for (spec, why) in [
            (json!({"runtimeClassName": "none"}), r#"pod rejected: RuntimeClass "none" not found"#),
            (json!({"runtimeClassName": "heavy", "overhead": {"cpu": "1"}}), OTHER_OVERHEAD),
            (json!({"overhead": {"cpu": "1"}}), OVERHEAD_WITHOUT_CLASS),
            (json!({"runtimeClassName": "plain", "overhead": {"cpu": "1"}}), OVERHEAD_WITHOUT_CLASS),
            (
                json!({"runtimeClassName": "heavy", "nodeSelector": {"kind": "small"}}),
                "conflict: runtimeClass.scheduling.nodeSelector[kind] = big; pod.spec.nodeSelector[kind] = small",
            ),
        ] {
            assert_eq!(create(spec).await.message(), format!(r#"pods "p" is forbidden: {why}"#));
        }
    }
}
