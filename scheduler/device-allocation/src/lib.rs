//! Structured allocation: finds devices for the claims of a pod on one node, or says why there are none.
//!
//! Pure: no clock, no API, no randomness. The same claims, slices and allocations give the same devices.
//! Read `allocator` first, then `search`. Corresponds to k8s.io/dynamic-resource-allocation/structured and its allocator
//! for the features of v1.36.
//!
//! ```text
//!   ResourceSlices -> slices -> pools of a node -> candidates
//!   ResourceClaims -> demand (requests, classes, "all" devices)
//!   both           -> search (selectors, counters, capacity, taints, constraints) -> result
//! ```

// What there is.
mod selector_verdicts;
mod device;
mod slices;
mod pool;
mod pool_changes;
mod allocated;

// What is wanted.
mod request;
mod selectors;
mod demand;

// What fits.
mod capacity;
mod counters;
mod constraint;
mod search;
mod result;
mod refusal;
mod allocator;
mod totals;
mod kept_allocations;

#[cfg(test)]
mod tests;

pub use allocated::{AllocatedState, Allocations};
pub use allocator::Allocator;
pub use device::DeviceId;
pub use kept_allocations::{KeptAllocations, KeptForClaims, Outcome};
pub use pool_changes::PoolChanges;
pub use refusal::Refusal;
pub use request::{Request, alternatives};
pub use result::assign_share_ids;
pub use search::MAX_STEPS;
pub use selectors::Selectors;
pub use slices::Slices;
pub use totals::Totals;

/// The most devices of one claim, as the API allows.
pub const MAX_RESULTS: usize = 32;
/// The most alternatives of a request, as the API allows.
pub const MAX_ALTERNATIVES: usize = 8;
