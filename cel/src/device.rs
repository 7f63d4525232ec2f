//! `DeviceExpression`: the expressions by which device classes and requests select devices, and the value of a device.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/cel.
//!
//! ```text
//!   device.driver == "gpu.example.com" && device.attributes["gpu.example.com"].model == "H100"
//! ```

use crate::value::{Key, Map, Value};
use crate::{Declaration, Environment, Failure, Meter, Program, QUANTITY, Type};
use proto::kinds::api::resource::v1::{Device, DeviceAttribute};
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

pub const MAX_DRIVER_BYTES: usize = 63;
/// Most attributes and capacities of a device.
pub const MAX_ATTRIBUTES: usize = 32;
pub const MAX_ATTRIBUTE_BYTES: usize = 64;
/// Highest cost of an expression for one device, estimated or real.
const MAX_COST: u64 = 1_000_000;
/// Help after the error of an attribute that a device does not have.
const OPTIONAL_HELP: &str = "Consider using CEL optional chaining (?), has() macro, or orValue() for optional fields";

/// Type of the variable `device`. It has the driver, and the attributes and capacities by domain and identifier.
static DEVICE: LazyLock<Declaration> = LazyLock::new(|| {
    let by_identifier = |values: Declaration| {
        let max = Some(MAX_ATTRIBUTES as u64);
        Declaration::map(Declaration::map(values, max), max)
    };
    let fields = [
        ("driver", Declaration::scalar(Type::String, 2).with_max(MAX_DRIVER_BYTES as u64)),
        ("attributes", by_identifier(Declaration::scalar(Type::Dyn, 1).with_max(MAX_ATTRIBUTE_BYTES as u64))),
        ("capacity", by_identifier(Declaration::scalar(Type::Opaque(QUANTITY), 1))),
        ("allowMultipleAllocations", Declaration::scalar(Type::Bool, 4)),
    ];
    let fields: BTreeMap<String, Declaration> = fields.map(|(name, field)| (name.to_owned(), field)).into();
    Declaration::object("kubernetes.DRADevice", fields, 0)
});

/// A compiled expression over one device.
#[derive(Debug)]
pub struct DeviceExpression(Program);

impl DeviceExpression {
    /// Compiles an expression. The error is worded as in Kubernetes.
    pub fn compile(text: &str) -> Result<Self, String> {
        let environment = Environment::default().with_bindings().with("device", DEVICE.kind.clone(), Some(&DEVICE));
        let program = environment.compile(text).map_err(|why| format!("compilation failed: {why}"))?;
        match program.result() {
            Type::Bool | Type::Dyn => Ok(Self(program)),
            other => Err(format!("must evaluate to bool or the unknown type, not {other}")),
        }
    }

    /// Returns true if the expression may cost more than is allowed.
    pub fn is_too_complex(&self) -> bool {
        self.0.max_cost > MAX_COST
    }

    /// Returns true if the expression selects a device, which `value` has made.
    pub fn matches(&self, device: &Value) -> Result<bool, String> {
        match self.0.run(vec![device.clone()], &mut Meter::new(MAX_COST)) {
            Ok(Value::Bool(matches)) => Ok(matches),
            Ok(other) => Err(format!("failed to convert CEL result to bool, got {}", other.type_name())),
            Err(Failure::TooCostly) => Err("operation cancelled: actual cost limit exceeded".to_owned()),
            Err(Failure::Error(why)) if why.starts_with("no such key:") => Err(format!("{why}. {OPTIONAL_HELP}")),
            Err(Failure::Error(why)) => Err(why.as_ref().to_owned()),
        }
    }
}

/// Returns the value of the variable `device`.
pub fn value(driver: &str, device: &Device) -> Value {
    let attributes = device.attributes.iter().flatten().map(|(name, attribute)| (name, attribute_value(attribute)));
    let capacity = device.capacity.iter().flatten().map(|(name, capacity)| {
        let value = Quantity::try_from(&capacity.value);
        (name, value.map_or_else(|error| broken(error.to_string()), |value| Value::Quantity(Arc::new(value))))
    });
    let fields = [
        ("driver", Value::string(driver)),
        ("attributes", by_domain(driver, attributes)),
        ("capacity", by_domain(driver, capacity)),
        ("allowMultipleAllocations", Value::Bool(device.allow_multiple_allocations.unwrap_or(false))),
    ];
    Value::map(fields.map(|(name, value)| (key(name), value)).into())
}

/// Groups values by the domains of their names. A name without a domain is in the driver's. A domain without values is an
/// empty map.
fn by_domain<'a>(driver: &str, values: impl Iterator<Item = (&'a String, Value)>) -> Value {
    let mut domains: BTreeMap<&str, Map> = BTreeMap::new();
    for (name, value) in values {
        let (domain, identifier) = name.split_once('/').unwrap_or((driver, name));
        domains.entry(domain).or_default().insert(key(identifier), value);
    }
    let domains = domains.into_iter().map(|(domain, values)| (key(domain), Value::map(values))).collect();
    Value::Defaulting(Arc::new(domains), Arc::new(Value::map(Map::new())))
}

fn attribute_value(attribute: &DeviceAttribute) -> Value {
    if let Some(text) = &attribute.string {
        return Value::string(text);
    }
    if let Some(version) = &attribute.version {
        let parsed = semver::Version::parse(version);
        return parsed.map_or_else(
            |error| broken(format!("parse semantic version: {error}")),
            |version| Value::Semver(Arc::new(version)),
        );
    }
    match (attribute.bool, attribute.int) {
        (Some(flag), _) => Value::Bool(flag),
        (None, Some(number)) => Value::Int(number),
        (None, None) => broken("unsupported attribute value".to_owned()),
    }
}

fn broken(why: String) -> Value {
    Value::Broken(why.into())
}

fn key(name: &str) -> Key {
    Key::String(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_select_devices() {
        let device: Device = serde_json::from_value(json!({
            "name": "gpu-0",
            "attributes": {
                "model": {"string": "H100"}, "index": {"int": 3}, "nvlink": {"bool": true},
                "other.example.com/version": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
        }))
        .unwrap();
        let device = value("gpu.example.com", &device);
        let own = r#"device.attributes["gpu.example.com"]"#;
        for (expression, expected) in [
            (r#"device.driver == "gpu.example.com""#.to_owned(), Ok(true)),
            (format!(r#"{own}.model == "H100" && {own}.index < 4 && {own}.nvlink"#), Ok(true)),
            (format!(r#"{own}.model == "A100""#), Ok(false)),
            (r#"device.attributes["other.example.com"].version.isGreaterThan(semver("1.2.0"))"#.to_owned(), Ok(true)),
            (r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#.to_owned(), Ok(true)),
            ("device.allowMultipleAllocations".to_owned(), Ok(false)),
            // An unknown domain is empty, but it is not there.
            (r#""cores" in device.attributes["cpu.example.com"]"#.to_owned(), Ok(false)),
            (r#""cpu.example.com" in device.attributes"#.to_owned(), Ok(false)),
            (r#"device.attributes.exists(domain, domain == "cpu.example.com")"#.to_owned(), Ok(false)),
            (r#"device.attributes["cpu.example.com"].?cores.orValue(0) == 0"#.to_owned(), Ok(true)),
            (
                r#"device.attributes["cpu.example.com"].cores == 1"#.to_owned(),
                Err(format!("no such key: cores. {OPTIONAL_HELP}")),
            ),
        ] {
            let compiled = DeviceExpression::compile(&expression).unwrap();
            assert_eq!(compiled.matches(&device), expected, "{expression}");
        }
    }

    #[test]
    fn other_expressions_do_not_compile() {
        let refused = |text: &str| DeviceExpression::compile(text).unwrap_err();
        assert_eq!(refused("1"), "must evaluate to bool or the unknown type, not int");
        assert!(refused("device.name == ''").starts_with("compilation failed: "));
    }
}
