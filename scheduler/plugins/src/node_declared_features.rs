//! NodeDeclaredFeatures rejects nodes whose kubelet lacks a feature that the pod needs.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodedeclaredfeatures and k8s.io/component-helpers/nodedeclaredfeatures.

use proto::kinds::api::core::v1::{Node, PodSpec};
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::sign::SignFragment;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection, Sign};
use serde_json::json;

/// `is_on` is the gate; without it the plugin rejects nothing.
pub struct NodeDeclaredFeatures {
    pub is_on: bool,
}

const NAME: &str = "NodeDeclaredFeatures";

/// Returns the features that the pod needs, sorted.
fn required(spec: &PodSpec) -> Vec<&'static str> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let mut rules = containers.flat_map(|container| container.restart_policy_rules.iter().flatten());
    let mut features = Vec::new();
    if rules.any(|rule| rule.action == "RestartAllContainers") {
        features.push("RestartAllContainersOnContainerExits");
    }
    if spec.host_network == Some(true) && spec.host_users == Some(false) {
        features.push("UserNamespacesHostNetworkSupport");
    }
    features
}

fn declared(node: &Node) -> &[String] {
    node.status.as_ref().and_then(|status| status.declared_features.as_deref()).unwrap_or_default()
}

impl Plugin for NodeDeclaredFeatures {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, _pod: &PodInfo, event: &ClusterEvent) -> bool {
        let changed =
            event.node_change().is_some_and(|(old, new)| old.is_none_or(|old| declared(old) != declared(new)));
        changed || event.pod_if_changed(|pod| required(pod.spec()))
    }
}

impl PreFilter for NodeDeclaredFeatures {
    fn pre_filter(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        let is_idle = !self.is_on || required(pod.spec()).is_empty();
        Ok(if is_idle { PreFilterResult::Skip } else { PreFilterResult::AllNodes })
    }
}

impl Filter for NodeDeclaredFeatures {
    fn filter(&self, _: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let declared = node.node.as_ref().map(|node| declared(node)).unwrap_or_default();
        let mut missing = required(pod.spec());
        missing.retain(|feature| !declared.iter().any(|one| one == feature));
        if missing.is_empty() {
            return Ok(());
        }
        let why = format!("node declared features check failed - unsatisfied requirements: {}", missing.join(", "));
        Err(Rejection::unresolvable(NAME, why))
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

impl Sign for NodeDeclaredFeatures {
    fn sign_pod(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, String> {
        Ok(vec![("features", json!(required(pod.spec())))])
    }
}

#[cfg(test)]
mod tests {
    use crate::fixture::{TestCluster, hint, info, node, pod};
    use scheduling_framework::ClusterEvent;
    use serde_json::json;

    #[test]
    fn a_pod_needs_nodes_that_declare_its_features() {
        let declares = |names: &[&str]| json!({"status": {"declaredFeatures": names}});
        let restarts = "RestartAllContainersOnContainerExits";
        let (old, new) = (node("n1", "a", json!({})), node("n2", "a", declares(&["Other", restarts])));
        let mut cluster = TestCluster::new([old.clone(), new.clone()]);
        let rule = json!({"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}});
        let mut wants = pod("p", "1", json!({}));
        wants["spec"]["containers"][0]["restartPolicyRules"] = json!([rule]);
        assert_eq!(cluster.schedule(wants.clone()), "p -> n2");
        cluster.cache.remove_node("n2");
        let why = format!("node declared features check failed - unsatisfied requirements: {restarts}");
        assert!(cluster.schedule(wants.clone()).contains(&why));
        assert_eq!(cluster.schedule(pod("q", "1", json!({}))), "q -> n1");
        let namespaces = pod("r", "1", json!({"hostNetwork": true, "hostUsers": false}));
        assert!(cluster.schedule(namespaces).contains("UserNamespacesHostNetworkSupport"));
        let upgraded = node("n1", "a", declares(&[restarts]));
        for (event, expected) in [
            (ClusterEvent::NodeAdded(old.clone()), true),
            (ClusterEvent::node_updated(&old, &upgraded).unwrap(), true),
            (ClusterEvent::node_updated(&upgraded, &node("n1", "b", declares(&[restarts]))).unwrap(), false),
            (ClusterEvent::VolumesChanged, false),
        ] {
            assert_eq!(hint("NodeDeclaredFeatures", &info(wants.clone()), &event), expected, "{event:?}");
        }
    }
}
