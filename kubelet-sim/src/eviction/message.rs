//! The messages of evictions.
//!
//! Corresponds to evictionMessage in pkg/kubelet/eviction/helpers.go.

use crate::eviction::load::{PodLoad, amount_of, usage_of};
use crate::eviction::signal::{Observations, Resource};
use crate::eviction::threshold::Threshold;
use proto::meta::quantity::{Format, Quantity};
use std::fmt::Write;

pub fn quantity(amount: i64) -> Quantity {
    Quantity::new(amount, Format::BinarySI)
}

/// Says which resource is low, how low, and which containers of the pod use more of it than they request.
pub fn of_pressure(resource: Resource, load: &PodLoad, met: &[Threshold], observations: &Observations) -> String {
    let mut message = format!("The node was low on resource: {resource}. ");
    let low = met.iter().find_map(|threshold| {
        let observed = observations.get(&threshold.signal).filter(|_| threshold.signal.resource() == resource)?;
        Some((threshold.amount.of(observed.capacity), quantity(observed.available)))
    });
    if let Some((wanted, available)) = low {
        let _ = write!(message, "Threshold quantity: {wanted}, available: {available}. ");
    }
    if !matches!(resource, Resource::Memory | Resource::Disk) {
        return message;
    }
    for (used, container) in load.with_specs() {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let (used, requested) = (quantity(usage_of(used, resource)), amount_of(requests, resource));
        if used > requested {
            let name = &container.name;
            let _ = write!(
                message,
                "Container {name} was using {used}, request is {requested}, has larger consumption of {resource}. "
            );
        }
    }
    message
}
