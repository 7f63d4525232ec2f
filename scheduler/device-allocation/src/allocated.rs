//! `Allocations`: which claim has which devices, and `AllocatedState`, what that leaves for others.
//!
//! Corresponds to allocatedDevices of pkg/scheduler/framework/plugins/dynamicresources and to AllocatedState of the structured
//! allocator.

use crate::device::{DeviceId, quantity};
use crate::pool_changes::PoolChanges;
use crate::slices::PoolId;
use proto::kinds::api::resource::v1::{AllocationResult, DeviceRequestAllocationResult};
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The devices that claims have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocatedState {
    /// Devices that belong to one claim, with the number of claims that name them. More than one is a mistake of somebody
    /// who allocates without looking.
    exclusive: BTreeMap<DeviceId, usize>,
    shared: BTreeMap<DeviceId, Shares>,
}

/// The use of a device that claims share.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shares {
    count: usize,
    consumed: BTreeMap<String, Quantity>,
}

impl AllocatedState {
    pub fn is_exclusive(&self, device: &DeviceId) -> bool {
        self.exclusive.contains_key(device)
    }

    /// Returns the consumed capacity of a device that has shares.
    pub fn consumed(&self, device: &DeviceId) -> Option<&BTreeMap<String, Quantity>> {
        self.shared.get(device).map(|shares| &shares.consumed)
    }

    /// Returns true if the device uses up counters.
    pub fn is_allocated(&self, device: &DeviceId) -> bool {
        self.is_exclusive(device) || self.shared.contains_key(device)
    }

    fn add(&mut self, result: &DeviceRequestAllocationResult) {
        let id = id_of(result);
        if result.share_id.is_none() {
            *self.exclusive.entry(id).or_default() += 1;
            return;
        }
        let shares = self.shared.entry(id).or_default();
        shares.count += 1;
        for (name, amount) in result.consumed_capacity.iter().flatten() {
            let amount = quantity(amount);
            if !amount.is_zero() {
                shares.consumed.entry(name.clone()).and_modify(|sum| *sum += amount).or_insert(amount);
            }
        }
    }

    fn remove(&mut self, result: &DeviceRequestAllocationResult) {
        let id = id_of(result);
        if result.share_id.is_none() {
            if let Some(claims) = self.exclusive.get_mut(&id) {
                *claims -= 1;
                if *claims == 0 {
                    self.exclusive.remove(&id);
                }
            }
            return;
        }
        let Some(shares) = self.shared.get_mut(&id) else { return };
        shares.count -= 1;
        for (name, amount) in result.consumed_capacity.iter().flatten() {
            if let Some(sum) = shares.consumed.get_mut(name) {
                *sum -= quantity(amount);
            }
        }
        shares.consumed.retain(|_, sum| !sum.is_zero());
        if shares.count == 0 {
            self.shared.remove(&id);
        }
    }
}

fn id_of(result: &DeviceRequestAllocationResult) -> DeviceId {
    DeviceId::new(&result.driver, &result.pool, &result.device)
}

fn pool_of(result: &DeviceRequestAllocationResult) -> PoolId {
    PoolId { driver: result.driver.clone(), pool: result.pool.clone() }
}

/// Returns the results that occupy devices. With admin access a device may be used beside others.
fn occupying(allocation: &AllocationResult) -> impl Iterator<Item = &DeviceRequestAllocationResult> {
    let results = allocation.devices.iter().flat_map(|devices| devices.results.iter().flatten());
    results.filter(|result| result.admin_access != Some(true))
}

/// The allocations of all claims, by the claims' uids.
#[derive(Debug, Default)]
pub struct Allocations {
    by_claim: BTreeMap<String, AllocationResult>,
    state: Arc<AllocatedState>,
    changes: Arc<PoolChanges>,
}

impl Allocations {
    /// Records what a claim has now.
    pub fn set(&mut self, claim_uid: &str, allocation: Option<&AllocationResult>) {
        if self.by_claim.get(claim_uid) == allocation {
            return;
        }
        let (state, changes) = (Arc::make_mut(&mut self.state), Arc::make_mut(&mut self.changes));
        if let Some(before) = self.by_claim.remove(claim_uid) {
            for result in occupying(&before) {
                state.remove(result);
                changes.record(pool_of(result));
            }
        }
        if let Some(allocation) = allocation {
            for result in occupying(allocation) {
                state.add(result);
                changes.record(pool_of(result));
            }
            self.by_claim.insert(claim_uid.to_owned(), allocation.clone());
        }
    }

    #[cfg(test)]
    pub fn of(&self, claim_uid: &str) -> Option<&AllocationResult> {
        self.by_claim.get(claim_uid)
    }

    /// Returns the present state, which later changes leave alone.
    pub fn state(&self) -> Arc<AllocatedState> {
        self.state.clone()
    }

    /// Returns the changes up to the present state.
    pub fn changes(&self) -> Arc<PoolChanges> {
        self.changes.clone()
    }
}
