//! Functions that make lists from lists: slices, sorting, reversing, removing duplicates.

use crate::failure::error;
use crate::meter::Meter;
use crate::value::{List, Outcome, Value, no_overload};
use std::cmp::Ordering;

pub const DECLARED: &str = "
    list(A).slice(int, int) list(A)
    list(list(A)).flatten() list(A)
    list(dyn).flatten(int) list(dyn)
    list(A).reverse() list(A)
    list(A).distinct() list(A)
    fn lists.range(int) list(int)
    list(int).sort() list(int)
    list(uint).sort() list(uint)
    list(double).sort() list(double)
    list(bool).sort() list(bool)
    list(duration).sort() list(duration)
    list(timestamp).sort() list(timestamp)
    list(string).sort() list(string)
    list(bytes).sort() list(bytes)
    list(A).@sortByAssociatedKeys(list(int)) list(A)
    list(A).@sortByAssociatedKeys(list(uint)) list(A)
    list(A).@sortByAssociatedKeys(list(double)) list(A)
    list(A).@sortByAssociatedKeys(list(bool)) list(A)
    list(A).@sortByAssociatedKeys(list(duration)) list(A)
    list(A).@sortByAssociatedKeys(list(timestamp)) list(A)
    list(A).@sortByAssociatedKeys(list(string)) list(A)
    list(A).@sortByAssociatedKeys(list(bytes)) list(A)
";

/// Longest list of `lists.range`.
const MAX_RANGE: i64 = 10_000_000;

pub fn run(name: &str, arguments: &[Value], meter: &mut Meter) -> Outcome {
    match (name, arguments) {
        ("slice", [Value::List(list), Value::Int(from), Value::Int(to)]) => slice(list, *from, *to, meter),
        ("flatten", [Value::List(list)]) => flat(list, 1, meter),
        ("flatten", [Value::List(_), Value::Int(depth)]) if *depth < 0 => error("level must be non-negative"),
        ("flatten", [Value::List(list), Value::Int(depth)]) => flat(list, *depth, meter),
        ("reverse", [Value::List(list)]) => {
            meter.work(list.items.len())?;
            Ok(Value::list(list.items.iter().rev().cloned().collect()))
        }
        ("distinct", [Value::List(list)]) => {
            let mut found = List::default();
            for item in &list.items {
                if !found.contains(item, meter)? {
                    found.items.push(item.clone());
                }
            }
            Ok(Value::list(found.items))
        }
        ("lists.range", [Value::Int(count)]) => range(*count, meter),
        ("sort", [Value::List(list)]) => sorted(list, list, meter),
        (_, [Value::List(list), Value::List(keys)]) => sorted(list, keys, meter),
        _ => no_overload(name, arguments),
    }
}

fn slice(list: &List, from: i64, to: i64, meter: &mut Meter) -> Outcome {
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        return error(format!("cannot slice({from}, {to}), negative indexes not supported"));
    };
    if start > end {
        return error(format!("cannot slice({from}, {to}), start index must be less than or equal to end index"));
    }
    let Some(part) = list.items.get(start..end) else {
        return error(format!("cannot slice({from}, {to}), list is length {}", list.items.len()));
    };
    meter.work(part.len())?;
    Ok(Value::list(part.to_vec()))
}

/// Flattens nested lists down to a depth.
fn flat(list: &List, depth: i64, meter: &mut Meter) -> Outcome {
    let mut found = Vec::new();
    // Iterators of the open lists, the innermost last.
    let mut open = vec![(list.items.iter(), depth)];
    while let Some((items, depth)) = open.last_mut() {
        let depth = *depth;
        match items.next() {
            None => {
                open.pop();
            }
            Some(Value::List(inner)) if depth > 0 => open.push((inner.items.iter(), depth - 1)),
            Some(item) => {
                meter.work(1)?;
                found.push(item.clone());
            }
        }
    }
    Ok(Value::list(found))
}

fn range(count: i64, meter: &mut Meter) -> Outcome {
    let length = match usize::try_from(count) {
        Ok(length) if count <= MAX_RANGE => length,
        Ok(_) => return error(format!("lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")),
        Err(_) => return error(format!("lists.range: size must be non-negative, got {count}")),
    };
    meter.work(length)?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

/// Sorts the items by their keys.
fn sorted(list: &List, keys: &List, meter: &mut Meter) -> Outcome {
    let (items, keys) = (&list.items, &keys.items);
    if items.len() != keys.len() {
        return error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            items.len(),
            keys.len()
        ));
    }
    let rounds = usize::try_from(items.len().max(1).ilog2() + 1).unwrap_or(1);
    meter.work(items.len().saturating_mul(rounds))?;
    if let Some(first) = keys.first() {
        if first.compare(first).is_none() && !matches!(first, Value::Double(_)) {
            return error("list elements must be comparable");
        }
        if keys.iter().any(|key| key.type_name() != first.type_name()) {
            return error("list elements must have the same type");
        }
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by(|a, b| keys[*a].compare(&keys[*b]).unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().map(|index| items[index].clone()).collect()))
}
