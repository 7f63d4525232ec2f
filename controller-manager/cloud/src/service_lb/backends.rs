//! The nodes that load balancers send traffic to.
//!
//! Corresponds to stableNodeSetPredicates in k8s.io/cloud-provider/controllers/service/controller.go.

use crate::cloud_nodes::{has_taint, machine_name};
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use proto::meta::node_labels::EXCLUDE_BALANCERS;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Taint that cluster-autoscaler puts on a node before it removes the machine.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// Returns true if load balancers send traffic to the node. Whether it is ready does not matter: the balancers check that
/// themselves.
///
/// Deviation: the original does not update load balancers because a node gets the autoscaler's taint; it leaves the node out
/// at the next update. Here every change of this answer is one.
pub fn is_eligible(node: &Node) -> bool {
    let label = node.metadata().labels.as_ref().and_then(|labels| labels.get(EXCLUDE_BALANCERS));
    let is_excluded =
        label.is_some_and(|value| !matches!(value.as_str(), "0" | "f" | "F" | "false" | "FALSE" | "False"));
    !node.is_deleting() && !is_excluded && !has_taint(node, TO_BE_DELETED)
}

/// Returns the names of the machines of eligible nodes, sorted.
pub fn backends(nodes: &[Arc<Node>]) -> Vec<String> {
    let eligible = nodes.iter().filter(|node| is_eligible(node)).filter_map(|node| machine_name(node));
    eligible.map(str::to_owned).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::{NodeSpec, Taint};

    #[test]
    fn nodes_are_left_out_by_label_by_taint_and_while_they_are_deleted() {
        let node = |name: &str, label: Option<&str>, taint: &str| {
            let mut node = fixture::node(name);
            node.metadata.labels = label.map(|value| fixture::labels(&[(EXCLUDE_BALANCERS, value)]));
            let taint = Taint { key: taint.into(), effect: "NoSchedule".into(), ..Taint::default() };
            node.spec = Some(NodeSpec { taints: Some(vec![taint]), ..NodeSpec::default() });
            node
        };
        let mut leaving = node("f", None, "");
        leaving.metadata.deletion_timestamp = Some(fixture::time(1));
        let mut named = node("g", None, "");
        named.spec.get_or_insert_default().provider_id = Some("orrery://machine-g".into());
        let mut foreign = node("h", None, "");
        foreign.spec.get_or_insert_default().provider_id = Some("kwok://h".into());
        let nodes = [
            node("a", None, "node.kubernetes.io/not-ready"),
            node("b", Some(""), ""),
            node("c", Some("true"), ""),
            node("d", Some("false"), ""),
            node("e", None, TO_BE_DELETED),
            leaving,
            named,
            foreign,
        ];
        assert_eq!(backends(&nodes.map(Arc::new)), ["a", "d", "machine-g"]);
    }
}
