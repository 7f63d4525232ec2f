//! The quality-of-service class of a pod.
//!
//! Corresponds to pkg/apis/core/v1/helper/qos. The API server writes the class into the status.

use proto::kinds::api::core::v1::{Pod, ResourceRequirements};

/// The class, in the order in which pods give way to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum QosClass {
    BestEffort,
    Burstable,
    Guaranteed,
}

/// Returns the class of a pod, as its status says. A pod whose status says nothing is of the best-effort class if no
/// container requests anything, and otherwise burstable.
pub fn qos_class(pod: &Pod) -> QosClass {
    match pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        Some("Guaranteed") => return QosClass::Guaranteed,
        Some("Burstable") => return QosClass::Burstable,
        Some("BestEffort") => return QosClass::BestEffort,
        _ => {}
    }
    let spec = pod.spec.as_ref();
    let containers = spec.iter().flat_map(|spec| spec.containers.iter().chain(spec.init_containers.iter().flatten()));
    let asks = |resources: &ResourceRequirements| {
        [&resources.requests, &resources.limits].into_iter().flatten().any(|list| !list.is_empty())
    };
    match containers.filter_map(|container| container.resources.as_ref()).any(asks) {
        true => QosClass::Burstable,
        false => QosClass::BestEffort,
    }
}
