//! DefaultTolerationSeconds: adds tolerations of five minutes for not-ready and unreachable nodes.
//!
//! Corresponds to plugin/pkg/admission/defaulttolerationseconds.

use crate::plugins::pod_parts::{items, text};
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use proto::meta::node_taints::{NOT_READY, UNREACHABLE};
use serde_json::{Value, json};

pub struct DefaultTolerationSeconds {
    /// The taints, with the toleration in seconds.
    taints: [(&'static str, i64); 2],
}

impl DefaultTolerationSeconds {
    pub fn new([not_ready_s, unreachable_s]: [i64; 2]) -> Self {
        Self { taints: [(NOT_READY, not_ready_s), (UNREACHABLE, unreachable_s)] }
    }
}

#[async_trait]
impl AdmissionPlugin for DefaultTolerationSeconds {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "pods") {
            return Ok(());
        }
        let Some(pod) = attributes.object.as_deref_mut() else { return Ok(()) };
        let missing: Vec<Value> = self
            .taints
            .iter()
            .filter(|(taint, _)| !tolerates(pod, taint))
            .map(|(taint, s)| default(taint, *s))
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

/// Tells whether a pod tolerates a taint for any time, whatever the operator and value.
fn tolerates(pod: &Value, taint: &str) -> bool {
    items(pod, "/spec/tolerations").any(|toleration| {
        let (key, effect) = (text(toleration, "/key"), text(toleration, "/effect"));
        (key.is_empty() || key == taint) && (effect.is_empty() || effect == "NoExecute")
    })
}

fn default(taint: &str, toleration_s: i64) -> Value {
    json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": toleration_s})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn what_is_tolerated_already_is_left_alone() {
        let plugin = DefaultTolerationSeconds::new([300, 300]);
        let default = |taint| default(taint, 300);
        let [not_ready, unreachable] = [NOT_READY, UNREACHABLE];
        let forever = json!({"key": not_ready, "operator": "Exists", "effect": "NoExecute"});
        let all = json!({"operator": "Exists"});
        let other_effect = json!({"key": unreachable, "operator": "Exists", "effect": "NoSchedule"});
        for (before, after) in [
            (json!([]), json!([default(not_ready), default(unreachable)])),
            (json!([forever]), json!([forever, default(unreachable)])),
            (json!([all]), json!([all])),
            (json!([other_effect]), json!([other_effect, default(not_ready), default(unreachable)])),
        ] {
            let pod = json!({"metadata": {"name": "p", "namespace": "a"}, "spec": {"tolerations": before}});
            let object = Write::create("", "pods", pod).run(&plugin).await.passed();
            assert_eq!(object["spec"]["tolerations"], after);
        }
    }
}
