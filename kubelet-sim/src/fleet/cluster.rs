//! The fleet as the network of its containers sees it.

use super::kubelet::SimulatedKubelet;
use super::{BY_NODE, Fleet};
use crate::network::services::Services;
use crate::runtime::container::{Cluster, NodeContext};
use client::Client;
use proto::Kind;
use proto::kinds::api::core::v1::{Pod, PodStatus};
use proto::meta::node_labels::ZONE;
use std::net::IpAddr;
use std::sync::Arc;

impl Cluster for Fleet {
    fn services(&self) -> &Services {
        &self.services
    }

    fn api_server(&self) -> Option<&Client> {
        self.api_server.get()
    }

    fn context_of(&self, node: &str) -> NodeContext<'_> {
        Self::context_of(self, node)
    }

    fn node_at(&self, address: IpAddr) -> Option<String> {
        let has = |node: &str| {
            let node = self.nodes.get("", node);
            node.is_some_and(|node| crate::node::internal_ips(&node).contains(&address))
        };
        let present = self.members.present().into_iter().map(|(_, kubelet)| kubelet);
        let own = |kubelet: &SimulatedKubelet| kubelet.machine.address == address || has(&kubelet.machine.name);
        present.filter(|kubelet| own(kubelet)).map(|kubelet| kubelet.machine.name.clone()).next()
    }

    fn pod_at(&self, address: IpAddr) -> Option<(String, Arc<Pod>, PodStatus)> {
        let mut present = self.members.present().into_iter();
        let (node, uid) =
            present.find_map(|(_, kubelet)| Some((kubelet.machine.name.clone(), kubelet.pod_at(address)?)))?;
        if !self.is_reachable(&node) {
            return None;
        }
        let pod = self.pods.by_index(BY_NODE, &node).into_iter().find(|pod| pod.uid() == uid)?;
        let (status, _) = self.memory.status_of(&pod);
        Some((node, pod, status))
    }

    fn pods_with_status(&self, node: &str) -> Vec<(Arc<Pod>, PodStatus)> {
        let pods = self.pods.by_index(BY_NODE, node).into_iter();
        pods.map(|pod| (pod.clone(), self.memory.status_of(&pod).0)).collect()
    }

    fn zone_of(&self, node: &str) -> String {
        let labels = self.nodes.get("", node).and_then(|node| node.metadata.labels.clone());
        labels.and_then(|labels| labels.get(ZONE).cloned()).unwrap_or_default()
    }

    fn wake(&self, pod: &Pod) {
        Self::wake(self, pod);
    }

    fn draw(&self, below: usize) -> usize {
        self.random.below(below)
    }
}
