//! Functions of lists as sets.

use crate::failure::Failure;
use crate::meter::Meter;
use crate::value::{List, Outcome, Value, no_overload};

pub const DECLARED: &str = "
    fn sets.contains(list(A), list(A)) bool
    fn sets.equivalent(list(A), list(A)) bool
    fn sets.intersects(list(A), list(A)) bool
";

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    let [Value::List(a), Value::List(b)] = arguments else { return no_overload(name, arguments) };
    let holds = match name {
        "sets.contains" => has_all(a, b, meter)?,
        "sets.equivalent" => has_all(a, b, meter)? && has_all(b, a, meter)?,
        _ => {
            let mut found = false;
            for item in &b.items {
                found = found || a.contains(item, meter)?;
            }
            found
        }
    };
    Ok(Value::Bool(holds))
}

fn has_all(a: &List, b: &List, meter: &mut Meter) -> Result<bool, Failure> {
    for item in &b.items {
        if !a.contains(item, meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
