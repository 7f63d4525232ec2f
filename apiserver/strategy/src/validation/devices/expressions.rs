//! Checks the CEL expressions by which requests and classes select devices.
//!
//! Corresponds to validateCELSelector in pkg/apis/resource/validation.

use cel::device::DeviceExpression;
use field_checks::at::{At, Errors};

/// Checks that an expression compiles to a boolean and does not cost too much.
pub fn check(expression: &At<'_>, errors: &mut Errors) {
    match DeviceExpression::compile(expression.text()) {
        Err(why) => errors.push(expression.invalid(why)),
        Ok(compiled) if compiled.is_too_complex() => {
            errors.push(expression.forbidden("too complex, exceeds cost limit"));
        }
        Ok(_) => {}
    }
}
