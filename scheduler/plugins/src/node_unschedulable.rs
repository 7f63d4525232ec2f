//! NodeUnschedulable rejects cordoned nodes, unless the pod tolerates the taint `unschedulable`.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodeunschedulable.

use component_helpers::scheduling::tolerations::tolerates;
use proto::kinds::api::core::v1::{Node, Taint};
use proto::meta::node_taints;
use scheduling_framework::cache::{NodeInfo, NodeRow};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, Rejection};
use std::sync::Arc;

pub struct NodeUnschedulable;

const NAME: &str = "NodeUnschedulable";

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let open = |node: &Arc<Node>| !node.spec.as_ref().and_then(|s| s.unschedulable).unwrap_or(false);
        event.node_change().is_some_and(|(old, new)| open(new) && !old.is_some_and(open))
            || event.pod_if_changed(|pod| pod.spec().tolerations.clone()) && tolerates_cordon(pod)
    }
}

/// Returns true if the pod tolerates the taint `unschedulable`, which every cordoned node is assumed to have.
fn tolerates_cordon(pod: &PodInfo) -> bool {
    let taint =
        Taint { key: node_taints::UNSCHEDULABLE.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    pod.spec().tolerations.iter().flatten().any(|toleration| tolerates(toleration, &taint))
}

impl Filter for NodeUnschedulable {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if !node.is_unschedulable() || tolerates_cordon(pod) {
            return Ok(());
        }
        Err(Rejection::unresolvable(NAME, "node(s) were unschedulable"))
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }

    fn filter_by_row(&self, _state: &CycleState, _pod: &PodInfo, row: &NodeRow) -> Option<Result<(), Rejection>> {
        (!row.is_unschedulable).then_some(Ok(()))
    }

    fn reads_pods(&self) -> bool {
        false
    }
}
