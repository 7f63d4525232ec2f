//! One node with the sums over its pods that filters and scores ask for.
//!
//! Corresponds to framework.NodeInfo of pkg/scheduler.

use crate::pod_info::{HostPort, PodInfo};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Taint};
use proto::scheduling::requests::Resources;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// `None` while only its pods are known.
    pub node: Option<Arc<Node>>,
    pub allocatable: Resources,
    /// In the order of their uids.
    pub pods: Vec<Arc<PodInfo>>,
    pub requested: Resources,
    pub non_zero_requested: Resources,
    /// How many pods hold each port.
    used_ports: BTreeMap<HostPort, u32>,
    /// Bytes by name.
    pub images: Arc<BTreeMap<String, i64>>,
    /// Pods with any affinity or anti-affinity, and with required anti-affinity: mostly none.
    pub with_affinity: u32,
    pub with_required_anti_affinity: u32,
}

impl NodeInfo {
    pub fn set_node(&mut self, node: Arc<Node>) {
        let status = node.status.as_ref();
        self.allocatable = Resources::of(status.and_then(|s| s.allocatable.as_ref()));
        let mut images = BTreeMap::new();
        for image in status.iter().flat_map(|s| s.images.iter().flatten()) {
            for name in image.names.iter().flatten() {
                images.insert(name.clone(), image.size_bytes.unwrap_or(0));
            }
        }
        if *self.images != images {
            self.images = Arc::new(images);
        }
        self.node = Some(node);
    }

    pub fn name(&self) -> &str {
        self.node.as_ref().map_or("", |node| node.name())
    }

    pub fn labels(&self) -> Option<&BTreeMap<String, String>> {
        self.node.as_ref()?.metadata.labels.as_ref()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels()?.get(key).map(String::as_str)
    }

    pub fn taints(&self) -> &[Taint] {
        self.node.as_ref().map_or(&[], |node| taints(node))
    }

    pub fn is_unschedulable(&self) -> bool {
        self.node.as_ref().and_then(|n| n.spec.as_ref()).and_then(|s| s.unschedulable).unwrap_or(false)
    }

    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        let at = self.pods.partition_point(|other| other.uid() < pod.uid());
        self.requested += &pod.requests;
        self.non_zero_requested += &pod.non_zero_requests;
        for port in &pod.host_ports {
            *self.used_ports.entry(port.clone()).or_insert(0) += 1;
        }
        self.with_affinity += u32::from(pod.has_affinity());
        self.with_required_anti_affinity += u32::from(!pod.required_anti_affinity.is_empty());
        self.pods.insert(at, pod);
    }

    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let at = self.pods.binary_search_by(|pod| pod.uid().cmp(uid)).ok()?;
        let pod = self.pods.remove(at);
        self.requested -= &pod.requests;
        self.non_zero_requested -= &pod.non_zero_requests;
        for port in &pod.host_ports {
            if let Some(holders) = self.used_ports.get_mut(port) {
                *holders -= 1;
                if *holders == 0 {
                    self.used_ports.remove(port);
                }
            }
        }
        self.with_affinity -= u32::from(pod.has_affinity());
        self.with_required_anti_affinity -= u32::from(!pod.required_anti_affinity.is_empty());
        Some(pod)
    }

    /// Somebody on the node has this port.
    pub fn is_port_taken(&self, port: &HostPort) -> bool {
        self.used_ports.keys().any(|used| used.conflicts_with(port))
    }

    /// Equal in everything that a decision can depend on.
    pub fn same_as(&self, other: &Self) -> bool {
        self.node == other.node
            && self.allocatable == other.allocatable
            && self.pods.iter().map(|p| p.uid()).eq(other.pods.iter().map(|p| p.uid()))
            && self.requested == other.requested
            && self.non_zero_requested == other.non_zero_requested
            && self.used_ports == other.used_ports
            && self.images == other.images
            && self.with_affinity == other.with_affinity
            && self.with_required_anti_affinity == other.with_required_anti_affinity
    }
}

pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default()
}
