//! Binding conditions: what a driver has to report of an allocated device before its pod is bound.
//!
//! Corresponds to isClaimReadyForBinding and isClaimTimeout in
//! pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go.

use component_helpers::device_claims::{allocation, devices};
use proto::Kind;
use proto::kinds::api::resource::v1::{AllocatedDeviceStatus, DeviceRequestAllocationResult, ResourceClaim};
use proto::kinds::jiff::Timestamp;
use proto::kinds::metav1::Condition;

/// Returns true if an allocated claim will not become ready: a driver has failed, or its time is over. It is over for what
/// was allocated before `oldest`.
pub fn is_stuck(claim: &ResourceClaim, oldest: Option<Timestamp>) -> bool {
    match is_ready(claim) {
        Ok(is_ready) => !is_ready && is_overdue(claim, oldest),
        Err(_) => allocation(claim).is_some(),
    }
}

/// Returns true if all binding conditions of the claim's devices are true, and an error if a driver has failed.
pub fn is_ready(claim: &ResourceClaim) -> Result<bool, String> {
    if allocation(claim).is_none() {
        return Ok(false);
    }
    for device in devices(claim).filter(|device| is_awaited(device)) {
        let Some(status) = status_of(claim, device) else { return Ok(false) };
        let condition = |name: &String| -> Option<&Condition> {
            status.conditions.iter().flatten().find(|condition| condition.type_ == *name && condition.status == "True")
        };
        if let Some(failed) = device.binding_failure_conditions.iter().flatten().find_map(condition) {
            let (name, reason, message) = (claim.name(), &failed.reason, &failed.message);
            return Err(format!("claim {name} binding failed: reason={reason}, message={message:?}"));
        }
        if !device.binding_conditions.iter().flatten().all(|name| condition(name).is_some()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if the drivers of the claim's devices have used up their time: the claim was allocated before `oldest`.
pub fn is_overdue(claim: &ResourceClaim, oldest: Option<Timestamp>) -> bool {
    let since = allocation(claim).and_then(|allocation| allocation.allocation_timestamp.as_ref());
    let (Some(since), Some(oldest)) = (since, oldest) else { return false };
    devices(claim).any(is_awaited) && since.0 < oldest
}

/// Returns true if the pod has to wait for conditions of some device.
pub fn are_awaited(claim: &ResourceClaim) -> bool {
    devices(claim).any(is_awaited)
}

fn is_awaited(device: &DeviceRequestAllocationResult) -> bool {
    device.binding_conditions.as_ref().is_some_and(|conditions| !conditions.is_empty())
}

fn status_of<'a>(
    claim: &'a ResourceClaim,
    device: &DeviceRequestAllocationResult,
) -> Option<&'a AllocatedDeviceStatus> {
    let mut statuses = claim.status.iter().flat_map(|status| status.devices.iter().flatten());
    statuses.find(|status| {
        status.driver == device.driver
            && status.pool == device.pool
            && status.device == device.device
            && status.share_id == device.share_id
    })
}
