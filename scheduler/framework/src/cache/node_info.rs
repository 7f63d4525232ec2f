//! `NodeInfo`, a node with its pods and the sums of their requests.
//!
//! Corresponds to framework.NodeInfo of pkg/scheduler.

use super::generation;
use crate::pod_info::{HostPort, PodInfo};
use component_helpers::scheduling::requests::Resources;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Taint};
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// `None` while only pods of the node are known.
    pub node: Option<Arc<Node>>,
    /// Number of what filters, scores and counts read of the node and its pods. It stays when only a status of a pod changes, or
    /// a part of the node that scheduling does not read.
    pub counted_generation: u64,
    pub allocatable: Resources,
    /// Pods sorted by uid.
    pub pods: Vec<Arc<PodInfo>>,
    pub requested: Resources,
    pub non_zero_requested: Resources,
    /// Number of pods that use each host port.
    used_ports: BTreeMap<HostPort, u32>,
    /// Number of uses of each PersistentVolumeClaim by the pods, by its key.
    pub claim_uses: Arc<BTreeMap<String, u32>>,
    /// Size of each image in bytes, by name.
    pub images: Arc<BTreeMap<String, i64>>,
    /// Lowest priority of the pods; the maximum without pods.
    pub lowest_priority: LowestPriority,
    /// Number of pods with any affinity or anti-affinity.
    pub with_affinity: u32,
    /// Number of pods with required anti-affinity.
    pub with_required_anti_affinity: u32,
    /// Number of this state: two states with the same number are equal. A clone is the same state until it changes.
    pub generation: u64,
}

/// The lowest priority of some pods. Without pods it is the maximum, so that no pod has a higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LowestPriority(pub i32);

impl Default for LowestPriority {
    fn default() -> Self {
        Self(i32::MAX)
    }
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
        self.generation = generation::next();
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

    /// Numbers a state in which filters, scores or counts may differ.
    pub fn counts_otherwise(&mut self) {
        self.generation = generation::next();
        self.counted_generation = self.generation;
    }

    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        let at = self.pods.partition_point(|other| other.uid() < pod.uid());
        self.requested += &pod.requests;
        self.non_zero_requested += &pod.non_zero_requests;
        for port in &pod.host_ports {
            *self.used_ports.entry(port.clone()).or_insert(0) += 1;
        }
        if !pod.claim_keys.is_empty() {
            let uses = Arc::make_mut(&mut self.claim_uses);
            pod.claim_keys.iter().for_each(|key| *uses.entry(key.clone()).or_insert(0) += 1);
        }
        self.with_affinity += u32::from(pod.has_affinity());
        self.with_required_anti_affinity += u32::from(!pod.required_anti_affinity.is_empty());
        self.lowest_priority.0 = self.lowest_priority.0.min(pod.priority);
        self.pods.insert(at, pod);
        self.counts_otherwise();
    }

    pub fn pod(&self, uid: &str) -> Option<&Arc<PodInfo>> {
        self.pods.binary_search_by(|pod| pod.uid().cmp(uid)).ok().map(|at| &self.pods[at])
    }

    /// Replaces a pod by one that counts as much. Returns the former one.
    pub fn replace_pod(&mut self, pod: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let at = self.pods.binary_search_by(|other| other.uid().cmp(pod.uid())).ok()?;
        self.generation = generation::next();
        let old = std::mem::replace(&mut self.pods[at], pod);
        if old.priority != self.pods[at].priority {
            self.find_lowest_priority();
        }
        Some(old)
    }

    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let at = self.pods.binary_search_by(|pod| pod.uid().cmp(uid)).ok()?;
        let pod = self.pods.remove(at);
        if self.requested.is_saturated() || self.non_zero_requested.is_saturated() {
            self.add_requests_again();
        } else {
            self.requested -= &pod.requests;
            self.non_zero_requested -= &pod.non_zero_requests;
        }
        if !pod.claim_keys.is_empty() {
            let uses = Arc::make_mut(&mut self.claim_uses);
            pod.claim_keys.iter().for_each(|key| subtract(uses, key, 1));
        }
        for port in &pod.host_ports {
            if let Some(users) = self.used_ports.get_mut(port) {
                *users -= 1;
                if *users == 0 {
                    self.used_ports.remove(port);
                }
            }
        }
        self.with_affinity -= u32::from(pod.has_affinity());
        self.with_required_anti_affinity -= u32::from(!pod.required_anti_affinity.is_empty());
        if pod.priority == self.lowest_priority.0 {
            self.find_lowest_priority();
        }
        self.counts_otherwise();
        Some(pod)
    }

    fn find_lowest_priority(&mut self) {
        self.lowest_priority = self.pods.iter().map(|pod| pod.priority).min().map(LowestPriority).unwrap_or_default();
    }

    fn add_requests_again(&mut self) {
        (self.requested, self.non_zero_requested) = Default::default();
        for pod in &self.pods {
            self.requested += &pod.requests;
            self.non_zero_requested += &pod.non_zero_requests;
        }
    }

    /// Returns true if a pod on the node uses this port.
    pub fn is_port_used(&self, port: &HostPort) -> bool {
        self.used_ports.keys().any(|used| used.conflicts_with(port))
    }

    /// Compares everything on which a decision can depend.
    pub fn same_as(&self, other: &Self) -> bool {
        self.node == other.node
            && self.allocatable == other.allocatable
            && self.pods.iter().map(|p| p.uid()).eq(other.pods.iter().map(|p| p.uid()))
            && self.requested == other.requested
            && self.non_zero_requested == other.non_zero_requested
            && self.used_ports == other.used_ports
            && self.claim_uses == other.claim_uses
            && self.images == other.images
            && self.lowest_priority == other.lowest_priority
            && self.with_affinity == other.with_affinity
            && self.with_required_anti_affinity == other.with_required_anti_affinity
    }
}

/// Subtracts uses of a claim, and forgets a claim without any.
pub fn subtract(uses: &mut BTreeMap<String, u32>, key: &str, less: u32) {
    if let Some(count) = uses.get_mut(key) {
        *count -= less;
        if *count == 0 {
            uses.remove(key);
        }
    }
}

pub fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default()
}
