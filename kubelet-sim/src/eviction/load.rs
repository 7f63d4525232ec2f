//! `PodLoad`: a pod with what it uses and what it requests, as eviction sees it.
//!
//! Corresponds to podMemoryUsage and podDiskUsage in pkg/kubelet/eviction/helpers.go.

use crate::eviction::signal::Resource;
use component_helpers::scheduling::requests::pod_requests;
use pod_life::story::usage::ContainerUsage;
use proto::kinds::api::core::v1::{Container, Pod};
use proto::kinds::apimachinery::api::resource::Quantity as WireQuantity;
use proto::meta::quantity::{Format, Quantity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod that runs on the node.
#[derive(Clone, Debug)]
pub struct PodLoad {
    pub pod: Arc<Pod>,
    pub containers: Vec<ContainerUsage>,
}

impl PodLoad {
    pub fn priority(&self) -> i32 {
        self.pod.spec.as_ref().and_then(|spec| spec.priority).unwrap_or(0)
    }

    /// Returns what the pod uses of a resource, in bytes or processes. Inodes are not simulated.
    pub fn usage(&self, resource: Resource) -> i64 {
        self.containers.iter().map(|container| usage_of(container, resource)).sum()
    }

    /// Returns what the pod requests of memory or disk.
    pub fn request(&self, resource: Resource) -> i64 {
        self.pod.spec.as_ref().map_or(0, |spec| pod_requests(spec).get(&resource.to_string()))
    }

    /// Returns how much more the pod uses than it requests.
    pub fn excess(&self, resource: Resource) -> i64 {
        self.usage(resource) - self.request(resource)
    }

    /// Returns each container that runs, with its spec.
    pub fn with_specs(&self) -> impl Iterator<Item = (&ContainerUsage, &Container)> {
        let spec = self.pod.spec.as_ref();
        self.containers.iter().filter_map(move |usage| {
            let spec = spec?;
            let mut all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
            Some((usage, all.find(|container| container.name == usage.name)?))
        })
    }
}

pub fn usage_of(container: &ContainerUsage, resource: Resource) -> i64 {
    let amount = match resource {
        Resource::Memory => container.memory_bytes,
        Resource::Disk => container.disk_bytes,
        Resource::Inodes => 0.0,
        Resource::Processes => container.processes,
    };
    amount as i64
}

/// Returns what a container requests or is limited to, as its spec writes it; zero if it says nothing.
pub fn amount_of(list: Option<&BTreeMap<String, WireQuantity>>, resource: Resource) -> Quantity {
    let amount = list.and_then(|list| list.get(&resource.to_string()));
    amount.and_then(|amount| Quantity::parse(&amount.0).ok()).unwrap_or(Quantity::new(0, Format::DecimalSI))
}
