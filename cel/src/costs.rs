//! What operations cost, by Kubernetes' rules: fifty nanoseconds of a machine of some years ago are one unit.
//!
//! Corresponds to github.com/google/cel-go/interpreter/runtimecost.go and to k8s.io/apiserver/pkg/cel/library/cost.go.

use super::value::Value;

/// Of looking at one character.
pub const CHARACTER: f64 = 0.1;
/// Of one character of a regular expression.
pub const REGEX_CHARACTER: f64 = 0.25;
pub const LIST: u64 = 10;
pub const MAP: u64 = 30;
pub const MESSAGE: u64 = 40;

/// `size` times a factor, rounded up.
pub fn scaled(size: u64, factor: f64) -> u64 {
    // A cast of what is too large gives the largest number.
    (size as f64 * factor).ceil() as u64
}

fn traversal(value: &Value) -> u64 {
    match value {
        Value::List(list) => list.items.iter().map(traversal).fold(0, u64::saturating_add),
        Value::String(_) | Value::Bytes(_) => scaled(value.size(), CHARACTER),
        _ => 1,
    }
}

/// What a call costs beside its arguments, which come with the target first.
pub fn at_run_time(name: &str, arguments: &[Value]) -> u64 {
    let size = |index: usize| arguments.get(index).map_or(0, Value::size);
    let is_text = |index: usize| matches!(arguments.get(index), Some(Value::String(_) | Value::Bytes(_)));
    match name {
        "_+_" if is_text(0) => scaled(size(0).saturating_add(size(1)), CHARACTER),
        "_==_" | "_!=_" => scaled(size(0).min(size(1)), CHARACTER),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) => scaled(size(0).min(size(1)), CHARACTER),
        "@in" if matches!(arguments.get(1), Some(Value::List(_))) => size(1),
        "startsWith" | "endsWith" => scaled(size(1), CHARACTER),
        "contains" => scaled(size(0), CHARACTER).saturating_mul(scaled(size(1), CHARACTER)),
        "matches" | "find" | "findAll" => {
            scaled(size(0).saturating_add(1), CHARACTER).saturating_mul(scaled(size(1), REGEX_CHARACTER))
        }
        "isSorted" | "sum" | "min" | "max" => arguments.first().map_or(0, traversal),
        "indexOf" | "lastIndexOf" => arguments.first().map_or(0, traversal),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "quantity" | "isQuantity" | "isIP" | "isCIDR"
        | "cidr" | "isURL" | "semver" | "isSemver" => scaled(size(0), CHARACTER),
        "ip" if is_text(0) => scaled(size(0), CHARACTER),
        "validate" => scaled(size(1), CHARACTER),
        "replace" | "split" => scaled(size(0), 2.0 * CHARACTER),
        "join" => 2 * arguments.first().map_or(0, traversal),
        "string" | "bytes" if is_text(0) => scaled(size(0), CHARACTER),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2),
        _ => 1,
    }
}
