//! The order in which pods are evicted.
//!
//! Corresponds to rankMemoryPressure, rankDiskPressureFunc and rankPIDPressure in pkg/kubelet/eviction/helpers.go.

use crate::eviction::load::PodLoad;
use crate::eviction::signal::Resource;
use std::cmp::Reverse;

/// Sorts the pods: those that use more than they request go first, then those of low priority, then those that use the
/// most beyond their request. Processes are never requested: there, priority and number decide.
pub fn rank(pods: &mut [PodLoad], resource: Resource) {
    pods.sort_by_cached_key(|load| {
        let within_request = match resource {
            Resource::Memory | Resource::Disk => load.excess(resource) <= 0,
            Resource::Inodes | Resource::Processes => false,
        };
        let amount = match resource {
            Resource::Memory | Resource::Disk => load.excess(resource),
            Resource::Inodes | Resource::Processes => load.usage(resource),
        };
        (within_request, load.priority(), Reverse(amount))
    });
}
