//! NodeName rejects all nodes but the one that the pod's spec names.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodename.

use scheduling_framework::cache::{NodeInfo, NodeRow};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, Rejection};

pub struct NodeName;

const NAME: &str = "NodeName";

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, _pod: &PodInfo, event: &ClusterEvent) -> bool {
        matches!(event, ClusterEvent::NodeAdded(_))
    }
}

impl Filter for NodeName {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if pod.node_name().is_empty() || pod.node_name() == node.name() {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) didn't match the requested node name"))
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }

    fn filter_by_row(&self, _state: &CycleState, pod: &PodInfo, _row: &NodeRow) -> Option<Result<(), Rejection>> {
        pod.node_name().is_empty().then_some(Ok(()))
    }

    fn reads_pods(&self) -> bool {
        false
    }
}
