//! Costs of operations, by Kubernetes' rules. One unit is about fifty nanoseconds on an older machine.
//!
//! Corresponds to github.com/google/cel-go/interpreter/runtimecost.go and to k8s.io/apiserver/pkg/cel/library/cost.go.

use super::value::Value;

/// Cost of reading one character.
pub const CHARACTER: f64 = 0.1;
/// Cost of reading and copying one character.
pub const TWO_CHARACTERS: f64 = 2.0 * CHARACTER;
/// Cost of one character of a regular expression.
pub const REGEX_CHARACTER: f64 = 0.25;
pub const LIST: u64 = 10;
pub const MAP: u64 = 30;
pub const MESSAGE: u64 = 40;
/// Cost of an authorization check; an expression's limit allows two.
pub const AUTHORIZATION_CHECK: u64 = 350_000;
/// Cost of a selector's requirement, which is an object with a list.
pub const SELECTOR_REQUIREMENT: f64 = (LIST + MESSAGE) as f64;
pub const LONGEST_FORMAT_NAME: u64 = 64;
/// Characters of the longest regular expression of a name's format.
pub const LONGEST_FORMAT_REGEX: u64 = 128;

/// Returns `size` times a factor, rounded up.
pub fn scaled(size: u64, factor: f64) -> u64 {
    // A cast of a larger number gives the maximum.
    (size as f64 * factor).ceil() as u64
}

/// Returns the cost of reading every part of a value.
fn traversal(value: &Value) -> u64 {
    match value {
        Value::List(list) => list.items.iter().map(traversal).fold(0, u64::saturating_add),
        Value::Map(map) | Value::Defaulting(map, _) => {
            map.iter().map(|(key, value)| traversal(&key.value()).saturating_add(traversal(value))).sum()
        }
        Value::String(text) => (text.len() as f64 * CHARACTER) as u64,
        Value::Bytes(bytes) => (bytes.len() as f64 * CHARACTER) as u64,
        _ => 1,
    }
}

/// Returns the cost of a call without that of its arguments. The target is the first argument.
pub fn at_run_time(name: &str, arguments: &[Value]) -> u64 {
    let size = |index: usize| arguments.get(index).map_or(0, Value::size);
    let walk = |index: usize| scaled(size(index), CHARACTER);
    let is_string = |index: usize| matches!(arguments.get(index), Some(Value::String(_)));
    let is_bytes = |index: usize| matches!(arguments.get(index), Some(Value::Bytes(_)));
    let is_text = |index: usize| is_string(index) || is_bytes(index);
    let of_regex = |text: u64, regex: u64| {
        scaled(text.saturating_add(1), CHARACTER).saturating_mul(scaled(regex, REGEX_CHARACTER))
    };
    match name {
        "_+_" if is_text(0) => scaled(size(0).saturating_add(size(1)), CHARACTER),
        "_==_" | "_!=_" => scaled(size(0).min(size(1)), CHARACTER),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text(0) => scaled(size(0).min(size(1)), CHARACTER),
        "@in" if matches!(arguments.get(1), Some(Value::List(_))) => size(1),
        "startsWith" | "endsWith" => walk(1),
        "contains" => walk(0).saturating_mul(walk(1)),
        "matches" | "find" | "findAll" => of_regex(size(0), size(1)),
        "isSorted" | "sum" | "min" | "max" | "indexOf" | "lastIndexOf" => arguments.first().map_or(0, traversal),
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "quantity"
        | "isQuantity"
        | "isIP"
        | "isCIDR"
        | "cidr"
        | "semver"
        | "isSemver"
        | "jsonpatch.escapeKey"
        | "strings.quote" => walk(0),
        "format" if is_string(0) => walk(0),
        "ip" if is_string(0) => walk(0),
        "ip.isCanonical" => scaled(size(0), TWO_CHARACTERS),
        "containsIP" | "containsCIDR" => {
            let network = network_bytes(arguments.first());
            let masked = if name == "containsCIDR" { scaled(network, CHARACTER) + 1 } else { 0 };
            scaled(2 * network, CHARACTER) + masked + if is_string(1) { walk(1) } else { 0 }
        }
        "validate" => of_regex(size(1), format_regex(arguments.first())),
        "fieldSelector" | "labelSelector" => {
            let requirements = scaled(size(1), 0.5);
            LIST.saturating_add(walk(1)).saturating_add(scaled(requirements, SELECTOR_REQUIREMENT))
        }
        "replace" | "split" => scaled(size(0), TWO_CHARACTERS),
        "join" => scaled(joined_size(arguments), TWO_CHARACTERS),
        "string" if is_bytes(0) => walk(0),
        "bytes" if is_string(0) => walk(0),
        "sets.contains" | "sets.intersects" => size(0).saturating_mul(size(1)).saturating_add(1),
        "sets.equivalent" => size(0).saturating_mul(size(1)).saturating_mul(2).saturating_add(1),
        "slice" => new_list(1.0, between(arguments.get(1), arguments.get(2))),
        "lists.range" => new_list(1.0, between(Some(&Value::Int(0)), arguments.first())),
        "reverse" => new_list(1.0, size(0)),
        "flatten" => match arguments.get(1) {
            Some(Value::Int(depth)) => new_list(depth.max(&0).to_owned() as f64, size(0)),
            _ => new_list(1.0, size(0)),
        },
        "distinct" | "sort" => compared_with_itself(arguments.first()),
        "@sortByAssociatedKeys" => compared_with_itself(arguments.get(1)),
        _ => 1,
    }
}

/// Returns the number of bytes of a network's prefix.
fn network_bytes(cidr: Option<&Value>) -> u64 {
    match cidr {
        Some(Value::Cidr(cidr)) => u64::from(cidr.prefix_len()).div_ceil(8),
        _ => 1,
    }
}

/// Returns the approximate length of a format's regular expression.
fn format_regex(format: Option<&Value>) -> u64 {
    match format {
        Some(Value::Format("dns1123Label" | "dns1123LabelPrefix" | "dns1035Label" | "dns1035LabelPrefix")) => 30,
        Some(Value::Format("labelValue")) => 40,
        Some(Value::Format("dns1123Subdomain" | "dns1123SubdomainPrefix" | "qualifiedName")) => 60,
        _ => LONGEST_FORMAT_REGEX,
    }
}

/// Returns the length of a list's joined texts.
fn joined_size(arguments: &[Value]) -> u64 {
    let Some(Value::List(list)) = arguments.first() else { return 0 };
    let items = list.items.iter().map(Value::size).fold(0, u64::saturating_add);
    let separators = (list.items.len() as u64).saturating_sub(1);
    items.saturating_add(separators.saturating_mul(arguments.get(1).map_or(0, Value::size)))
}

/// Returns the number of integers from one up to another, without the latter.
fn between(from: Option<&Value>, to: Option<&Value>) -> u64 {
    match (from, to) {
        (Some(Value::Int(from)), Some(Value::Int(to))) => u64::try_from(to.saturating_sub(*from)).unwrap_or(0),
        _ => 0,
    }
}

fn new_list(factor: f64, size: u64) -> u64 {
    ((size as f64 * factor) as u64).saturating_add(1 + LIST)
}

/// Returns the cost of comparing every item with every other.
fn compared_with_itself(list: Option<&Value>) -> u64 {
    let Some(Value::List(list)) = list else { return 1 };
    let is_text = matches!(list.items.first(), Some(Value::String(_) | Value::Bytes(_)));
    let size = list.items.len() as u64;
    new_list(if is_text { 2.0 + CHARACTER } else { 2.0 }, size.saturating_mul(size))
}
