//! The CSINode of a node: the simulated CSI driver that runs there.
//!
//! Corresponds to pkg/volume/csi/nodeinfomanager, which the driver's registrar makes write it.
//!
//! Deviation: a kubelet writes its CSINode when it starts. A simulated node writes it when its first pod comes that uses a
//! volume of the simulated driver, so that fleets without volumes write none.

use client::{Client, Error, Patch, PatchOptions};
use component_helpers::volumes::csi_volume::SIMULATED_DRIVER;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::kinds::api::storage::v1::CSINode;
use proto::meta::node_labels::ZONE;
use serde_json::{Value, json};

/// Annotation with the plugins of clouds whose volumes CSI drivers serve.
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
const MIGRATED_PLUGINS: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
     kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume";

/// Adds the driver to the node's CSINode, and creates that if it is missing.
pub async fn register(client: &Client, node: &Node) -> Result<(), Error> {
    let api = client.api::<CSINode>("");
    match api.get(node.name()).await {
        Ok(found) if found.spec.drivers.iter().any(|driver| driver.name == SIMULATED_DRIVER) => Ok(()),
        Ok(_) => {
            let patch = Patch::Strategic(json!({"spec": {"drivers": [driver(node)]}}));
            api.patch(node.name(), &patch, &PatchOptions::default()).await.map(drop)
        }
        Err(error) if error.is_not_found() => api.create(&csi_node(node)).await.map(drop),
        Err(error) => Err(error),
    }
}

fn csi_node(node: &Node) -> CSINode {
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": node.name(), "uid": node.uid()});
    let metadata =
        json!({"name": node.name(), "annotations": {MIGRATED: MIGRATED_PLUGINS}, "ownerReferences": [owner]});
    let value = json!({"metadata": metadata, "spec": {"drivers": [driver(node)]}});
    CSINode::decode_value(value).expect("it has the fields of a CSINode")
}

/// Returns the driver as it describes itself: its volumes are in the node's zone, if that is known.
fn driver(node: &Node) -> Value {
    let has_zone = node.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(ZONE));
    let keys: &[&str] = if has_zone { &[ZONE] } else { &[] };
    json!({"name": SIMULATED_DRIVER, "nodeID": node.name(), "topologyKeys": keys})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_says_which_driver_runs_there() {
        let labels = json!({ZONE: "a"});
        let node = Node::decode_value(json!({"metadata": {"name": "n", "uid": "u", "labels": labels}})).unwrap();
        let csi_node = csi_node(&node);
        let driver = &csi_node.spec.drivers[0];
        assert_eq!((driver.name.as_str(), driver.node_id.as_str()), (SIMULATED_DRIVER, "n"));
        assert_eq!(driver.topology_keys.as_deref(), Some([ZONE.to_owned()].as_slice()));
        assert_eq!(csi_node.metadata.owner_references.unwrap()[0].uid, "u");
    }
}
