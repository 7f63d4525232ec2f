//! Defaults of resource amounts: limit ranges, quotas and device requests. Amounts are rounded up to thousandths.
//!
//! Corresponds to `SetDefaults_ResourceList`, `SetDefaults_LimitRangeItem` and pkg/apis/resource.

use super::DefaultValue::{Int, Text};
use super::Row::{self, Each, Fix, In, Set, SetIf};
use super::{Members, map_in, text};
use crate::meta::quantity::Quantity;
use serde_json::Value;

pub const REQUIREMENTS: &[Row] = &[Fix(round_requirements)];

pub const LIMIT_RANGE: &[Row] = &[Each("spec.limits", &[Fix(round_limits), Fix(default_limits)])];

pub const RESOURCE_QUOTA: &[Row] = &[In("spec", &[Fix(round_quota)]), In("status", &[Fix(round_quota)])];

pub const RESOURCE_CLAIM: &[Row] =
    &[In("spec", CLAIM_SPEC), Each("status.allocation.devices.results", &[Each("tolerations", TOLERATION)])];
pub const RESOURCE_CLAIM_TEMPLATE: &[Row] = &[In("spec.spec", CLAIM_SPEC)];

const CLAIM_SPEC: &[Row] =
    &[Each("devices.requests", &[In("exactly", DEVICE_REQUEST), Each("firstAvailable", DEVICE_REQUEST)])];

const DEVICE_REQUEST: &[Row] = &[
    Set("allocationMode", Text("ExactCount")),
    SetIf(|request| text(request, "allocationMode") == "ExactCount", "count", Int(1)),
    Each("tolerations", TOLERATION),
];

const TOLERATION: &[Row] = &[Set("operator", Text("Equal"))];

fn round_requirements(resources: &mut Members) {
    round_up(resources, "limits");
    round_up(resources, "requests");
}

pub fn round_overhead(spec: &mut Members) {
    round_up(spec, "overhead");
    if let Some(Value::Object(resources)) = spec.get_mut("resources") {
        round_requirements(resources);
    }
}

fn round_quota(quota: &mut Members) {
    round_up(quota, "hard");
    round_up(quota, "used");
}

fn round_limits(item: &mut Members) {
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        round_up(item, field);
    }
}

/// Rounds the amounts in a field up to whole thousandths.
pub fn round_up(members: &mut Members, field: &str) {
    let amounts = members.get_mut(field).and_then(Value::as_object_mut);
    for (_, amount) in amounts.into_iter().flatten() {
        let Some(text) = amount.as_str() else { continue };
        let is_fine = text.ends_with(['n', 'u']) || text.contains("e-") || text.contains("E-");
        if let Some(quantity) = is_fine.then(|| Quantity::parse(text).ok()).flatten() {
            *amount = Value::from(Quantity::from_milli(quantity.milli_value(), quantity.format()).to_string());
        }
    }
}

/// Sets the `default` and the `defaultRequest` of containers from the other limits: `max`, `default` and `min`.
fn default_limits(item: &mut Members) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(amounts) = item.get(from).and_then(Value::as_object).cloned() else { continue };
        let target = map_in(item, to).expect("decoding made these fields maps");
        for (name, amount) in amounts {
            target.entry(name).or_insert(amount);
        }
    }
}
