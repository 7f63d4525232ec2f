//! `Counters`: what the devices of partitionable hardware leave for each other.
//!
//! Corresponds to checkAvailableCounters of the structured allocator.
//!
//! ```text
//!   counter set "gpu-0": memory 80Gi
//!   device gpu-0 consumes 80Gi, gpu-0-half-0 and gpu-0-half-1 40Gi each: the whole or the halves, but not both
//! ```

use crate::allocated::AllocatedState;
use crate::device::{CounterSets, Device};
use crate::pool::Pool;
use std::collections::BTreeMap;

/// The free counters of pools, by the pools' numbers. They are computed when they are first asked for.
#[derive(Debug, Default)]
pub struct Counters(BTreeMap<usize, CounterSets>);

impl Counters {
    /// Returns true if the pool has what the device consumes.
    pub fn suffice(&mut self, number: usize, pool: &Pool, device: &Device, allocated: &AllocatedState) -> bool {
        let free = self.0.entry(number).or_insert_with(|| free(pool, allocated));
        device.consumes.iter().all(|(name, consumed)| {
            let set = free.get(name);
            consumed
                .iter()
                .all(|(counter, amount)| set.and_then(|set| set.get(counter)).is_some_and(|free| amount <= free))
        })
    }

    pub fn take(&mut self, number: usize, device: &Device) {
        if let Some(free) = self.0.get_mut(&number) {
            take(free, device);
        }
    }

    pub fn give_back(&mut self, number: usize, device: &Device) {
        let Some(free) = self.0.get_mut(&number) else { return };
        for (name, consumed) in &device.consumes {
            for (counter, amount) in consumed {
                if let Some(free) = free.get_mut(name).and_then(|set| set.get_mut(counter)) {
                    *free += *amount;
                }
            }
        }
    }
}

/// Returns what allocated devices leave. It may be negative, if somebody has allocated too much.
fn free(pool: &Pool, allocated: &AllocatedState) -> CounterSets {
    let mut free = pool.counters.clone();
    let devices = pool.devices.iter().chain(&pool.out_of_reach);
    devices.filter(|device| allocated.is_allocated(&device.id)).for_each(|device| take(&mut free, device));
    free
}

fn take(free: &mut CounterSets, device: &Device) {
    for (name, consumed) in &device.consumes {
        for (counter, amount) in consumed {
            if let Some(free) = free.get_mut(name).and_then(|set| set.get_mut(counter)) {
                *free -= *amount;
            }
        }
    }
}
