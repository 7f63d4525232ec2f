//! TaintNodesByCondition: adds the not-ready taint to a new Node; the node lifecycle controller removes it.
//!
//! Corresponds to plugin/pkg/admission/nodetaint.

use crate::plugins::pod_parts::items;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use proto::Status;
use proto::meta::node_taints::NOT_READY;
use serde_json::{Value, json};

pub struct TaintNodesByCondition;

#[async_trait]
impl AdmissionPlugin for TaintNodesByCondition {
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        if !attributes.is("", "nodes") {
            return Ok(());
        }
        let Some(node) = attributes.object.as_deref_mut() else { return Ok(()) };
        if !items(node, "/spec/taints").any(|taint| taint["key"] == NOT_READY && taint["effect"] == "NoSchedule") {
            let taints = &mut node["spec"]["taints"];
            let mut all = taints.as_array().cloned().unwrap_or_default();
            all.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
            *taints = Value::Array(all);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn a_new_node_is_tainted_once() {
        let not_ready = json!({"key": NOT_READY, "effect": "NoSchedule"});
        let other = json!({"key": "a", "effect": "NoSchedule"});
        let stronger = json!({"key": NOT_READY, "effect": "NoExecute"});
        for (before, after) in [
            (json!({}), json!({"taints": [not_ready]})),
            (json!({"taints": [other]}), json!({"taints": [other, not_ready]})),
            (json!({"taints": [stronger]}), json!({"taints": [stronger, not_ready]})),
            (json!({"taints": [not_ready]}), json!({"taints": [not_ready]})),
        ] {
            let node = json!({"metadata": {"name": "n"}, "spec": before});
            let object = Write::create("", "nodes", node).run(&TaintNodesByCondition).await.passed();
            assert_eq!(object["spec"], after);
        }
    }
}
