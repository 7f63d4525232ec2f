//! NodeUnschedulable: cordoned nodes take no pods but those that tolerate it.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodeunschedulable.

use crate::cache::NodeInfo;
use crate::framework::{ClusterEvent, CycleState, Filter, Plugin, Rejection};
use crate::plugins::taint_toleration::tolerates;
use crate::pod_info::PodInfo;
use proto::kinds::api::core::v1::Taint;

pub struct NodeUnschedulable;

const NAME: &str = "NodeUnschedulable";

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_helped_by(&self, _pod: &PodInfo, event: &ClusterEvent) -> bool {
        let cordoned = |node: &proto::kinds::api::core::v1::Node| {
            node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false)
        };
        event.node_if_changed(cordoned).is_some_and(|node| !cordoned(node))
            || event.pod_if_changed(|pod| pod.spec().tolerations.clone())
    }
}

impl Filter for NodeUnschedulable {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if !node.is_unschedulable() {
            return Ok(());
        }
        let taint = Taint {
            key: "node.kubernetes.io/unschedulable".to_owned(),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        if pod.spec().tolerations.iter().flatten().any(|toleration| tolerates(toleration, &taint)) {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) were unschedulable"))
    }
}
