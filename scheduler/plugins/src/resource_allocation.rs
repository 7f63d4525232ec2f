//! `CountedResources`, the resources that count for a score, with what of them is allocatable and would be used on a node.
//!
//! Corresponds to pkg/scheduler/framework/plugins/noderesources/resource_allocation.go.

use component_helpers::scheduling::requests::Resources;
use scheduling_framework::cache::NodeResources;
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
    pub fn with_assumed(&self, pod: &PodInfo, node: NodeResources<'_>) -> Uses {
        self.uses(pod, node, |resource| match resource {
            Resource::Cpu | Resource::Memory => {
                resource.of(node.non_zero_requested).saturating_add(resource.of(&pod.non_zero_requests))
            }
            _ => resource.of(node.requested).saturating_add(resource.of(&pod.requests)),
        })
    }

    /// Returns the resources that the node has, as they are requested without the pod and with it.
    pub fn with_requests(&self, pod: &PodInfo, node: NodeResources<'_>) -> [Uses; 2] {
        [
            self.uses(pod, node, |resource| resource.of(node.requested)),
            self.uses(pod, node, |resource| resource.of(node.requested).saturating_add(resource.of(&pod.requests))),
        ]
    }

    /// Leaves out extended resources that the pod does not request.
    fn uses(&self, pod: &PodInfo, node: NodeResources<'_>, requested: impl Fn(&Resource) -> i64) -> Uses {
        let counts = |resource: &Resource| !matches!(resource, Resource::Scalar(_)) || resource.of(&pod.requests) > 0;
        let counted = self.0.iter().filter(|(resource, _)| counts(resource) && resource.of(node.allocatable) > 0);
        let one = |(resource, weight): &(Resource, i64)| Use {
            allocatable: resource.of(node.allocatable),
            requested: requested(resource),
            weight: *weight,
        };
        counted.map(one).collect()
    }
}
