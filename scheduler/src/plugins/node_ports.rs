//! NodePorts: a port of the host has one owner.
//!
//! Corresponds to pkg/scheduler/framework/plugins/nodeports.

use crate::cache::{NodeInfo, Snapshot};
use crate::framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFiltered, Rejection};
use crate::pod_info::PodInfo;

pub struct NodePorts;

const NAME: &str = "NodePorts";

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_helped_by(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::AssignedPodDeleted(gone) => {
                pod.host_ports.iter().any(|wanted| gone.host_ports.iter().any(|held| held.conflicts_with(wanted)))
            }
            _ => false,
        }
    }
}

impl PreFilter for NodePorts {
    fn pre_filter(&self, _: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFiltered, Rejection> {
        Ok(if pod.host_ports.is_empty() { PreFiltered::Skip } else { PreFiltered::AllNodes })
    }
}

impl Filter for NodePorts {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if pod.host_ports.iter().any(|port| node.is_port_taken(port)) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Err(Rejection::unschedulable(NAME, reason));
        }
        Ok(())
    }
}
