//! Functions of lists with ordered items.

use super::operators::add;
use crate::failure::error;
use crate::meter::Meter;
use crate::value::{Outcome, Value, no_overload};

pub const DECLARED: &str = "
    list(int).isSorted() bool
    list(uint).isSorted() bool
    list(double).isSorted() bool
    list(bool).isSorted() bool
    list(duration).isSorted() bool
    list(timestamp).isSorted() bool
    list(string).isSorted() bool
    list(bytes).isSorted() bool
    list(int).sum() int
    list(uint).sum() uint
    list(double).sum() double
    list(duration).sum() duration
    list(int).max() int
    list(uint).max() uint
    list(double).max() double
    list(bool).max() bool
    list(duration).max() duration
    list(timestamp).max() timestamp
    list(string).max() string
    list(bytes).max() bytes
    list(int).min() int
    list(uint).min() uint
    list(double).min() double
    list(bool).min() bool
    list(duration).min() duration
    list(timestamp).min() timestamp
    list(string).min() string
    list(bytes).min() bytes
    list(A).indexOf(A) int
    list(A).lastIndexOf(A) int
";

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    let [Value::List(list), rest @ ..] = arguments else { return no_overload(name, arguments) };
    let items = &list.items;
    meter.work(items.len())?;
    match (name, rest) {
        ("isSorted", []) => Ok(Value::Bool(
            items.windows(2).all(|pair| pair[0].compare(&pair[1]).is_some_and(std::cmp::Ordering::is_le)),
        )),
        ("sum", []) => {
            // The sum of an empty list depends on its type, which is unknown here; int is the most common.
            let Some((first, rest)) = items.split_first() else { return Ok(Value::Int(0)) };
            rest.iter().try_fold(first.clone(), |sum, item| add(&sum, item, meter))
        }
        ("min" | "max", []) => {
            let better = if name == "min" { std::cmp::Ordering::Less } else { std::cmp::Ordering::Greater };
            let best = items.iter().reduce(|best, item| if item.compare(best) == Some(better) { item } else { best });
            best.map_or_else(|| error(format!("{name} called on empty list")), |best| Ok(best.clone()))
        }
        ("indexOf" | "lastIndexOf", [wanted]) => {
            let mut found = None;
            for (index, item) in items.iter().enumerate() {
                if item.equals(wanted, meter)? {
                    found = Some(index);
                    if name == "indexOf" {
                        break;
                    }
                }
            }
            Ok(found.map_or(Value::Int(-1), Value::count))
        }
        _ => no_overload(name, arguments),
    }
}
