//! Pods that use more of the node's disk than their limits allow.
//!
//! Corresponds to localStorageEviction in pkg/kubelet/eviction/eviction_manager.go.

use crate::eviction::load::{PodLoad, amount_of, usage_of};
use crate::eviction::message::quantity;
use crate::eviction::signal::Resource;
use proto::kinds::api::core::v1::Container;
use proto::meta::quantity::Quantity;

/// Returns the message of the eviction of a pod that uses more than its limits; `None` for one that does not.
///
/// Deviation: what a container writes through the simulated shell does not count, and so no size limit of an emptyDir is
/// exceeded. A container uses the disk that its story says.
pub fn limit_exceeded(load: &PodLoad) -> Option<String> {
    let limit = |container: &Container| {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        amount_of(limits, Resource::Disk)
    };
    let spec = load.pod.spec.as_ref()?;
    if spec.containers.iter().all(|container| !limit(container).is_zero()) {
        let of_pod: Quantity = spec.containers.iter().map(limit).sum();
        if quantity(load.usage(Resource::Disk)) > of_pod {
            return Some(format!("Pod ephemeral local storage usage exceeds the total limit of containers {of_pod}. "));
        }
    }
    load.with_specs().find_map(|(used, container)| {
        let (used, limit) = (quantity(usage_of(used, Resource::Disk)), limit(container));
        let exceeds = !limit.is_zero() && used > limit;
        let shown = limit.to_string();
        exceeds.then(|| format!("Container {} exceeded its local ephemeral storage limit {shown:?}. ", container.name))
    })
}
