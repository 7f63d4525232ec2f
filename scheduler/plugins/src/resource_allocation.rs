//! `CountedResources`, the resources that count for a score, with what of them is allocatable and would be used on a node.
//!
//! Corresponds to pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.

use crate::dynamic_resources::Backed;
use component_helpers::scheduling::requests::Resources;
use device_allocation::Totals;
use scheduling_framework::cache::{NodeInfo, NodeResources};
use scheduling_framework::configuration::args::node_resources::ResourceSpec;
use scheduling_framework::pod_info::PodInfo;
use smallvec::SmallVec;

/// One resource, so that its name is looked at once and not for each node.
#[derive(Clone, Debug)]
enum Resource {
    Cpu,
    Memory,
    EphemeralStorage,
    /// Huge pages and extended resources.
    Scalar(String),
}

impl Resource {
    fn named(name: &str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            name => Self::Scalar(name.to_owned()),
        }
    }

    fn of(&self, amounts: &Resources) -> i64 {
        match self {
            Self::Cpu => amounts.milli_cpu,
            Self::Memory => amounts.memory,
            Self::EphemeralStorage => amounts.ephemeral_storage,
            Self::Scalar(name) => amounts.scalar.get(name).copied().unwrap_or(0),
        }
    }
}

/// One resource of a node, if the pod ran there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    pub allocatable: i64,
    pub requested: i64,
    pub weight: i64,
}

/// Few resources count, so that a score needs no memory of its own.
pub type Uses = SmallVec<[Use; 3]>;

#[derive(Clone, Debug)]
pub struct CountedResources(Vec<(Resource, i64)>);

/// The devices that stand for extended resources on a node; `None` where no class does.
pub type Devices<'a> = Option<(&'a Backed, &'a NodeInfo)>;

impl CountedResources {
    pub fn new(resources: &[ResourceSpec]) -> Self {
        Self(resources.iter().map(|resource| (Resource::named(&resource.name), resource.weight)).collect())
    }

    /// Returns true if the pod requests some of these resources.
    pub fn are_requested(&self, requests: &Resources) -> bool {
        self.0.iter().any(|(resource, _)| resource.of(requests) > 0)
    }

    /// Returns the resources that the node has, as they would be used with the pod. Containers without requests count with
    /// the assumed ones.
    pub fn with_assumed(&self, pod: &PodInfo, node: NodeResources<'_>, devices: Devices<'_>) -> Uses {
        self.uses(pod, node, devices, true, |resource| match resource {
            Resource::Cpu | Resource::Memory => {
                resource.of(node.non_zero_requested).saturating_add(resource.of(&pod.non_zero_requests))
            }
            _ => resource.of(node.requested).saturating_add(resource.of(&pod.requests)),
        })
    }

    /// Returns the resources that the node has, as they are requested without the pod and with it.
    pub fn with_requests(&self, pod: &PodInfo, node: NodeResources<'_>, devices: Devices<'_>) -> [Uses; 2] {
        [false, true].map(|with_pod| {
            self.uses(pod, node, devices, with_pod, |resource| {
                let added = if with_pod { resource.of(&pod.requests) } else { 0 };
                resource.of(node.requested).saturating_add(added)
            })
        })
    }

    /// Returns true if an extended resource counts.
    pub fn has_extended(&self) -> bool {
        self.0.iter().any(|(resource, _)| matches!(resource, Resource::Scalar(_)))
    }

    /// Leaves out extended resources that the pod does not request. Where the node has none of one, the devices that stand for it
    /// count.
    fn uses(
        &self,
        pod: &PodInfo,
        node: NodeResources<'_>,
        devices: Devices<'_>,
        with_pod: bool,
        requested: impl Fn(&Resource) -> i64,
    ) -> Uses {
        let counts = |resource: &Resource| !matches!(resource, Resource::Scalar(_)) || resource.of(&pod.requests) > 0;
        let one = |(resource, weight): &(Resource, i64)| {
            let (allocatable, weight) = (resource.of(node.allocatable), *weight);
            if allocatable > 0 {
                return Some(Use { allocatable, requested: requested(resource), weight });
            }
            let Resource::Scalar(name) = resource else { return None };
            let (backed, info) = devices?;
            let Totals { devices, allocated } = backed.totals(name, info);
            let added = if with_pod { resource.of(&pod.requests) } else { 0 };
            (devices > 0).then(|| Use { allocatable: devices, requested: allocated.saturating_add(added), weight })
        };
        self.0.iter().filter(|(resource, _)| counts(resource)).filter_map(one).collect()
    }
}
