//! Amounts of resources as whole numbers, as kube-scheduler counts them: CPU in thousandths, everything else in units.

pub use component_helpers::gpu_sharing::{GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL};

use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";

/// Whole GPUs of a node, for pods that share none. The name that device plugins use.
pub const GPU: &str = "nvidia.com/gpu";
/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, i64>;

/// Returns the amount of a quantity.
pub fn amount(resource: &str, quantity: &Quantity) -> i64 {
    match resource {
        CPU => quantity.milli_value(),
        _ => quantity.value(),
    }
}

/// Writes an amount as a quantity.
pub fn quantity_text(resource: &str, amount: i64) -> String {
    match resource {
        CPU if amount % 1000 == 0 => (amount / 1000).to_string(),
        CPU => format!("{amount}m"),
        _ => amount.to_string(),
    }
}

/// Adds `times` times some amounts to others.
pub fn add(to: &mut Amounts, amounts: &Amounts, times: i64) {
    for (resource, amount) in amounts {
        *to.entry(resource.clone()).or_default() += amount * times;
    }
}
