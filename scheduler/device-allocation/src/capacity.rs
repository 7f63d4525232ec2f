//! Consumable capacity: what part of a shared device a request takes, and whether that is left.
//!
//! Corresponds to consumable_capacity.go of the structured allocator.
//!
//! ```text
//!   device: bandwidth 10Gi, requests from 1Gi in steps of 2Gi
//!   request 4Gi -> takes 5Gi (1Gi + 2 steps); a second request for 4Gi fits, a third does not
//! ```

use crate::device::{Capacity, Device, quantity};
use crate::request::Request;
use proto::kinds::api::resource::v1::{CapacityRequestPolicy, CapacityRequestPolicyRange};
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

/// The consumed amounts by the names of the capacities.
pub type Consumed = BTreeMap<String, Quantity>;

/// Returns what the request takes of the device; `None` if the device has not as much, or does not allow such an amount.
/// `in_use` is what others have taken.
pub fn consumed(request: &Request<'_>, device: &Device, in_use: &[Option<&Consumed>]) -> Option<Consumed> {
    let is_known = |name: &String| device.capacity.contains_key(name);
    if !request.capacity.into_iter().flatten().all(|(name, _)| is_known(name)) {
        return None;
    }
    let mut taken = Consumed::new();
    for (name, capacity) in &device.capacity {
        let requested = request.capacity.and_then(|wanted| wanted.get(name)).map(quantity);
        let amount = amount(requested, capacity);
        if capacity.policy.as_ref().is_some_and(|policy| violates(amount, policy)) {
            return None;
        }
        let before = in_use.iter().copied().flatten().filter_map(|consumed| consumed.get(name)).copied();
        if before.fold(amount, |sum, more| sum + more) > capacity.value {
            return None;
        }
        taken.insert(name.clone(), amount);
    }
    Some(taken)
}

/// Returns the amount for a request: rounded up as the policy says. Without a request it is the default, or everything.
fn amount(requested: Option<Quantity>, capacity: &Capacity) -> Quantity {
    let policy = capacity.policy.as_ref();
    let Some(requested) = requested else {
        return policy.and_then(|policy| policy.default.as_ref()).map_or(capacity.value, quantity);
    };
    let Some(policy) = policy else { return requested };
    match (&policy.valid_range, &policy.valid_values) {
        (Some(range), _) => round_up(requested, range),
        (None, Some(values)) => {
            values.iter().map(quantity).filter(|value| *value >= requested).min().unwrap_or(requested)
        }
        (None, None) => requested,
    }
}

/// Rounds up to the minimum, or to the next step from there.
fn round_up(requested: Quantity, range: &CapacityRequestPolicyRange) -> Quantity {
    let min = quantity(&range.min);
    if requested < min {
        return min;
    }
    let Some(step) = range.step.as_ref().map(|step| quantity(step).value()).filter(|step| *step > 0) else {
        return requested;
    };
    let over = requested.value().saturating_sub(min.value());
    let steps = over / step + i64::from(over % step != 0);
    Quantity::new(steps.saturating_mul(step).saturating_add(min.value()), requested.format())
}

fn violates(amount: Quantity, policy: &CapacityRequestPolicy) -> bool {
    if policy.default.as_ref().is_some_and(|default| quantity(default) == amount) {
        return false;
    }
    match (&policy.valid_range, &policy.valid_values) {
        (Some(range), _) => {
            let is_above = range.max.as_ref().is_some_and(|max| amount > quantity(max));
            let step = range.step.as_ref().map(|step| quantity(step).value()).filter(|step| *step > 0);
            let over = amount.value().saturating_sub(quantity(&range.min).value());
            is_above || step.is_some_and(|step| over % step != 0)
        }
        (None, Some(values)) => !values.is_empty() && !values.iter().any(|value| quantity(value) == amount),
        (None, None) => false,
    }
}
