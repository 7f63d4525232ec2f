//! `NodeRow`, what most filters and scores read of a node. A snapshot has the rows of its nodes beside each other.
//!
//! The first look at a node costs what it takes to fetch it from memory, and a node with its object lies in many places.

use crate::cache::NodeInfo;
use crate::pod_info::PodInfo;
use component_helpers::scheduling::requests::Resources;

/// Derived state: it always equals the row that is made from the node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeRow {
    pub allocatable: Resources,
    pub requested: Resources,
    pub non_zero_requested: Resources,
    pub has_taints: bool,
    pub is_unschedulable: bool,
}

/// The resources of a node, from its row or from the node itself.
#[derive(Clone, Copy, Debug)]
pub struct NodeResources<'a> {
    pub allocatable: &'a Resources,
    pub requested: &'a Resources,
    pub non_zero_requested: &'a Resources,
}

impl NodeRow {
    pub fn of(node: &NodeInfo) -> Self {
        let mut row = Self::default();
        row.update(node);
        row
    }

    pub fn add_pod(&mut self, pod: &PodInfo) {
        self.requested += &pod.requests;
        self.non_zero_requested += &pod.non_zero_requests;
    }

    /// Removes a pod. The sums must not be saturated.
    pub fn remove_pod(&mut self, pod: &PodInfo) {
        self.requested -= &pod.requests;
        self.non_zero_requested -= &pod.non_zero_requests;
    }

    /// Takes over a new state of the node.
    pub fn update(&mut self, node: &NodeInfo) {
        self.allocatable.clone_from(&node.allocatable);
        self.requested.clone_from(&node.requested);
        self.non_zero_requested.clone_from(&node.non_zero_requested);
        self.has_taints = !node.taints().is_empty();
        self.is_unschedulable = node.is_unschedulable();
    }

    pub fn resources(&self) -> NodeResources<'_> {
        let Self { allocatable, requested, non_zero_requested, .. } = self;
        NodeResources { allocatable, requested, non_zero_requested }
    }
}

impl NodeInfo {
    pub fn resources(&self) -> NodeResources<'_> {
        let Self { allocatable, requested, non_zero_requested, .. } = self;
        NodeResources { allocatable, requested, non_zero_requested }
    }
}
