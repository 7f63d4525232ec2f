//! NodePorts rejects nodes on which the pod's host ports are in use.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodeports.

use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection};

pub struct NodePorts;

const NAME: &str = "NodePorts";

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::AssignedPodDeleted(deleted) => {
                pod.host_ports.iter().any(|wanted| deleted.host_ports.iter().any(|used| used.conflicts_with(wanted)))
            }
            _ => false,
        }
    }
}

impl PreFilter for NodePorts {
    fn pre_filter(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        Ok(if pod.host_ports.is_empty() { PreFilterResult::Skip } else { PreFilterResult::AllNodes })
    }
}

impl Filter for NodePorts {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if pod.host_ports.iter().any(|port| node.is_port_used(port)) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Err(Rejection::unschedulable(NAME, reason));
        }
        Ok(())
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }
}
