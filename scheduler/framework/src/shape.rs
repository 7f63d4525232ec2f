//! The shape of a pod: what scheduling reads of it. Pods of one shape differ in nothing but their names.
//!
//! The pods of one ReplicaSet have one shape, so that what was found for one of them is kept for the next. Corresponds to
//! the signatures of pkg/scheduler/framework (SignPod), which serve opportunistic batching.

use crate::pod_info::PodInfo;
use proto::Kind;
use proto::kinds::api::core::v1::NodeAffinity;
use proto::kinds::metav1::OwnerReference;

impl PodInfo {
    /// Returns true if both pods mean the same to others on their node: they use the same resources and claims, and the same
    /// selectors and terms match them.
    pub fn counts_as(&self, other: &Self) -> bool {
        self.pod.is_deleting() == other.pod.is_deleting()
            && self.requests == other.requests
            && self.non_zero_requests == other.non_zero_requests
            && self.host_ports == other.host_ports
            && self.claim_keys == other.claim_keys
            && self.is_matched_as(other)
    }

    /// Returns true if both pods need and prefer the same of a node itself, whatever runs on others.
    pub fn needs_same_node(&self, other: &Self) -> bool {
        let (a, b) = (self.spec(), other.spec());
        self.requests == other.requests
            && self.non_zero_requests == other.non_zero_requests
            && self.host_ports == other.host_ports
            && self.node_name() == other.node_name()
            && a.node_selector == b.node_selector
            && a.tolerations == b.tolerations
            && self.node_affinity() == other.node_affinity()
    }

    /// Returns true if both pods have the same shape.
    pub fn has_shape_of(&self, other: &Self) -> bool {
        self.is_matched_as(other)
            && self.needs_same_node(other)
            && self.spec().topology_spread_constraints == other.spec().topology_spread_constraints
            && self.controller() == other.controller()
    }

    fn is_matched_as(&self, other: &Self) -> bool {
        self.labels() == other.labels()
            && self.namespace() == other.namespace()
            && self.required_affinity == other.required_affinity
            && self.required_anti_affinity == other.required_anti_affinity
            && self.preferred_affinity == other.preferred_affinity
            && self.preferred_anti_affinity == other.preferred_anti_affinity
    }

    fn node_affinity(&self) -> Option<&NodeAffinity> {
        self.spec().affinity.as_ref()?.node_affinity.as_ref()
    }

    fn controller(&self) -> Option<&OwnerReference> {
        let owners = self.pod.metadata.owner_references.as_ref()?;
        owners.iter().find(|owner| owner.controller == Some(true))
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{info, merge, pod};
    use serde_json::{Value, json};

    /// Each row changes one thing, and names the comparisons that see it.
    #[test]
    fn what_makes_a_shape() {
        let affinity = json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {}}]}});
        let node_affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}});
        let spread = json!([{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]);
        let owner = json!([{"apiVersion": "v1", "kind": "ReplicaSet", "name": "rs", "uid": "1", "controller": true}]);
        for (change, expected) in [
            (json!({}), ""),
            (json!({"metadata": {"name": "other", "uid": "other"}}), ""),
            (json!({"status": {"phase": "Running"}}), ""),
            (json!({"spec": {"volumes": [{"name": "token-x7", "projected": {}}]}}), ""),
            (json!({"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}), "counts"),
            (json!({"metadata": {"labels": {"app": "other"}}}), "counts shape"),
            (json!({"metadata": {"namespace": "other"}}), "counts shape"),
            (json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "counts"),
            (json!({"metadata": {"ownerReferences": owner}}), "shape"),
            (json!({"spec": {"affinity": affinity}}), "counts shape"),
            (json!({"spec": {"affinity": node_affinity}}), "needs shape"),
            (json!({"spec": {"nodeSelector": {"zone": "a"}}}), "needs shape"),
            (json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), "needs shape"),
            (json!({"spec": {"nodeName": "n1"}}), "needs shape"),
            (json!({"spec": {"topologySpreadConstraints": spread}}), "shape"),
            (json!({"spec": {"overhead": {"cpu": "1"}}}), "counts needs shape"),
        ] {
            let original = pod("web", "1", json!({}));
            let mut changed: Value = original.clone();
            merge(&mut changed, change.clone());
            let (one, other) = (info(original), info(changed));
            let differs = [
                ("counts", !one.counts_as(&other)),
                ("needs", !one.needs_same_node(&other)),
                ("shape", !one.has_shape_of(&other)),
            ];
            let seen: Vec<&str> = differs.iter().filter(|(_, differs)| *differs).map(|(name, _)| *name).collect();
            assert_eq!(seen.join(" "), expected, "{change}");
        }
    }
}
