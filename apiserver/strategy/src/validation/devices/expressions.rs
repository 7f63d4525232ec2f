//! Compiles the CEL expressions by which requests and classes select devices.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/cel.

use super::identifiers::MAX_DRIVER_BYTES;
use super::slice::{MAX_ATTRIBUTE_BYTES, MAX_ATTRIBUTES};
use cel::{Declaration, Environment, QUANTITY, Type};
use field_checks::at::{At, Errors};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Maximum estimated cost of an expression for one device.
const MAX_COST: u64 = 1_000_000;

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

/// Checks that an expression compiles to a boolean and does not cost too much.
pub fn check(expression: &At<'_>, errors: &mut Errors) {
    let environment = Environment::default().with_bindings().with("device", DEVICE.kind.clone(), Some(&DEVICE));
    match environment.compile(expression.text()) {
        Err(why) => errors.push(expression.invalid(format!("compilation failed: {why}"))),
        Ok(program) => match program.result() {
            Type::Bool | Type::Dyn if program.max_cost > MAX_COST => {
                errors.push(expression.forbidden("too complex, exceeds cost limit"));
            }
            Type::Bool | Type::Dyn => {}
            other => {
                let why = format!("must evaluate to bool or the unknown type, not {other}");
                errors.push(expression.invalid(why));
            }
        },
    }
}
