//! Amounts of resources as whole numbers, as kube-scheduler counts them: CPU in thousandths, everything else in units.

use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

pub const CPU: &str = "cpu";
pub const MEMORY: &str = "memory";
pub const PODS: &str = "pods";

/// Whole GPUs of a node, for pods that share none. The name that device plugins use.
pub const GPU: &str = "nvidia.com/gpu";
/// Thousandths of all GPUs of a node, and the annotation with what a pod needs of each of its GPUs.
pub const GPU_MILLI: &str = "alibabacloud.com/gpu-milli";
/// Annotation with the number of a pod's GPUs, and a label and resource of nodes that have some.
pub const GPU_COUNT: &str = "alibabacloud.com/gpu-count";
/// Annotation with the places of the GPUs that a pod has been given, as `0-3`.
pub const GPU_INDEX: &str = "alibabacloud.com/gpu-index";
/// Label with the model of a node's GPUs.
pub const GPU_MODEL: &str = "alibabacloud.com/gpu-card-model";

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
