//! PodTopologyLabels: copies the zone and region labels of a Node to the pods that are bound to it.
//!
//! Corresponds to plugin/pkg/admission/podtopologylabels.

use crate::plugins::pod_parts::text;
use crate::{AdmissionPlugin, Attributes};
use async_trait::async_trait;
use cacher::lookup::ObjectKey;
use component_helpers::scheduling::topology_labels::TOPOLOGY_LABELS;
use proto::Status;
use serde_json::json;

pub struct PodTopologyLabels;

#[async_trait]
impl AdmissionPlugin for PodTopologyLabels {
    /// Sets labels on the Binding, which become the pod's.
    async fn admit(&self, attributes: &mut Attributes<'_>) -> Result<(), Status> {
        let object = attributes.new_object();
        let is_node = matches!(text(object, "/target/kind"), "" | "Node");
        let node = match (&*attributes.served.group, &*attributes.served.resource, attributes.subresource) {
            ("", "pods", "") => text(object, "/spec/nodeName"),
            ("", "pods", "binding") if is_node => text(object, "/target/name"),
            _ => return Ok(()),
        };
        if node.is_empty() {
            return Ok(());
        }
        let Some(node) = attributes.lookup.get(ObjectKey::cluster("", "nodes", node))? else { return Ok(()) };
        let Some(object) = attributes.object.as_deref_mut() else { return Ok(()) };
        for key in TOPOLOGY_LABELS {
            if let Some(value) = node.index.labels.get(key) {
                object["metadata"]["labels"][key] = json!(value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Write;

    #[tokio::test]
    async fn bound_pods_learn_where_they_are() {
        let node = || json!({"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z", "other": "x"}}});
        let zone = json!({"topology.kubernetes.io/zone": "z"});
        let named = json!({"name": "p", "namespace": "a"});
        for (write, labels) in [
            (Write::create("", "pods", json!({"metadata": named, "spec": {"nodeName": "n"}})), zone.clone()),
            (Write::create("", "pods", json!({"metadata": named, "spec": {}})), json!(null)),
            (
                Write::create("", "pods", json!({"metadata": named, "target": {"name": "n"}})).subresource("binding"),
                zone,
            ),
            (
                Write::create("", "pods", json!({"metadata": named, "target": {"name": "gone"}}))
                    .subresource("binding"),
                json!(null),
            ),
        ] {
            let object = write.beside("", "nodes", node()).run(&PodTopologyLabels).await.passed();
            assert_eq!(object["metadata"]["labels"], labels);
        }
    }
}
