//! Estimates the cost of a call without its arguments, and the size of its result.
//!
//! Corresponds to k8s.io/apiserver/pkg/cel/library/cost.go, and to the estimates of cel-go's extensions and standard
//! library.

use super::range::{NOTHING, ONE, Range, UNKNOWN};
use super::{Entries, Estimator, NodeEstimate, Origin, PathStep, either};
use crate::costs::{
    AUTHORIZATION_CHECK, CHARACTER, LIST, LONGEST_FORMAT_NAME, LONGEST_FORMAT_REGEX, REGEX_CHARACTER,
    SELECTOR_REQUIREMENT, TWO_CHARACTERS,
};
use crate::functions::Overload;
use crate::node::{Call, Kind};
use crate::types::{self, Type};
use crate::value::Value;

/// The estimate of a call; `entries` if the sizes of the result's parts are known.
pub struct Estimate {
    pub cost: Range,
    pub size: Option<Range>,
    pub entries: Option<Entries>,
}

fn costs(cost: Range) -> Estimate {
    Estimate { cost, size: None, entries: None }
}

fn sized(cost: Range, size: Range) -> Estimate {
    Estimate { cost, size: Some(size), entries: None }
}

impl<'d> Estimator<'d> {
    /// Returns an estimate that covers every possible overload.
    pub(super) fn overloads(&self, call: &Call, arguments: &[NodeEstimate<'d>]) -> Estimate {
        let each = call.overloads.iter().map(|overload| self.overload(call, overload, arguments));
        let whole = each.reduce(|a, b| Estimate {
            cost: a.cost.or(b.cost),
            size: match (a.size, b.size) {
                (Some(a), Some(b)) => Some(a.or(b)),
                (a, b) => a.or(b),
            },
            entries: b.entries.or(a.entries),
        });
        whole.unwrap_or_else(|| costs(ONE))
    }

    fn overload(&self, call: &Call, overload: &Overload, arguments: &[NodeEstimate<'d>]) -> Estimate {
        let size = |index: usize| arguments.get(index).map_or(UNKNOWN, NodeEstimate::size);
        let walk = |index: usize| size(index).scaled(CHARACTER);
        let takes = |index: usize, kind: Type| overload.arguments.get(index) == Some(&kind);
        match call.name {
            "check" => costs(Range::exactly(AUTHORIZATION_CHECK)),
            "fieldSelector" | "labelSelector" => costs(selector_cost(size(1))),
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => costs(self.of_items(call, arguments)),
            "url" | "jsonpatch.escapeKey" | "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                sized(walk(0), size(0))
            }
            "replace" => sized(size(0).scaled(TWO_CHARACTERS), replaced(size(0), size(1), size(2))),
            "split" => {
                // A negative number is no limit.
                let most = literal_int(call, 2).map_or(size(0).max, |most| u64::try_from(most).unwrap_or(u64::MAX));
                sized(size(0).scaled(TWO_CHARACTERS), Range::up_to(most))
            }
            "join" => self.joined(call, arguments),
            "find" | "findAll" => sized(regex_cost(size(0), size(1)), Range::up_to(size(0).max)),
            "containsIP" | "containsCIDR" => costs(network_cost(call.name).plus(match takes(1, Type::String) {
                true => walk(1),
                false => NOTHING,
            })),
            "validate" => costs(walk(1).scaled(LONGEST_FORMAT_REGEX as f64 * REGEX_CHARACTER)),
            "_==_" | "_!=_" => costs(equality_cost(call, arguments)),
            "_<_" | "_<=_" | "_>_" | "_>=_" if takes(0, Type::String) || takes(0, Type::Bytes) => {
                costs(smaller(size(0), size(1)))
            }
            "_+_" => match overload.result {
                Type::String | Type::Bytes | Type::List(_) => {
                    let size = size(0).plus(size(1));
                    let is_list = matches!(overload.result, Type::List(_));
                    let cost = if is_list { ONE } else { size.scaled(CHARACTER) };
                    Estimate { entries: either(arguments[0].entries, arguments[1].entries), ..sized(cost, size) }
                }
                _ => costs(ONE),
            },
            "@in" if matches!(overload.arguments[1], Type::List(_)) => costs(size(1)),
            "startsWith" | "endsWith" => costs(walk(1)),
            "contains" => costs(walk(0).times(walk(1))),
            // Only the method has an estimate.
            "matches" if overload.is_member => costs(regex_cost(size(0), size(1))),
            // The result's size is unknown, since a number may have any precision.
            "format" if overload.is_member => costs(walk(0)),
            "strings.quote" => sized(walk(0), size(0).times(Range { min: 1, max: 2 }).plus(Range::exactly(2))),
            "bytes" if takes(0, Type::String) => sized(walk(0), size(0).times(Range { min: 1, max: 4 })),
            "string" if takes(0, Type::Bytes) => sized(walk(0), Range { min: size(0).min / 4, max: size(0).max }),
            "sets.contains" | "sets.intersects" => costs(size(0).times(size(1)).plus(ONE)),
            "sets.equivalent" => costs(size(0).times(size(1)).scaled(2.0).plus(ONE)),
            "slice" => {
                let from = literal_int(call, 1).and_then(|from| u64::try_from(from).ok()).unwrap_or(0);
                let to = literal_int(call, 2).and_then(|to| u64::try_from(to).ok()).unwrap_or(size(0).max);
                new_list(1.0, Range::exactly(to.wrapping_sub(from)))
            }
            "lists.range" => {
                let count = literal_int(call, 0).and_then(|count| u64::try_from(count).ok());
                new_list(1.0, Range::exactly(count.unwrap_or(u64::MAX)))
            }
            "reverse" => new_list(1.0, size(0)),
            "flatten" => {
                let unknown = if arguments.len() > 1 { u64::MAX } else { 1 };
                let depth = literal_int(call, 1).and_then(|depth| u64::try_from(depth).ok()).unwrap_or(unknown);
                new_list(depth as f64, size(0))
            }
            "distinct" => new_list(2.0, size(0).times(size(0))),
            "sort" | "@sortByAssociatedKeys" => {
                let keys = arguments.len() - 1;
                let is_text = matches!(&overload.arguments[keys], Type::List(items) if is_text(items));
                new_list(if is_text { 2.0 + CHARACTER } else { 2.0 }, size(keys).times(size(keys)))
            }
            _ => costs(ONE),
        }
    }

    /// Returns the declared size of a list's items.
    fn item_size(&self, list: &NodeEstimate<'d>) -> Range {
        match list.origin {
            Origin::Computed => UNKNOWN,
            origin => self.below(origin, PathStep::Element).size().unwrap_or(UNKNOWN),
        }
    }

    /// Returns the cost of reading all items: one each, and the characters of texts.
    fn of_items(&self, call: &Call, arguments: &[NodeEstimate<'d>]) -> Range {
        let Some((target, node)) = arguments.first().zip(call.arguments.first()) else { return ONE };
        match &node.result {
            Type::List(items) if is_text(items) => {
                target.size().times(ONE.plus(self.item_size(target).scaled(CHARACTER)))
            }
            Type::List(_) => target.size(),
            _ => target.size().scaled(CHARACTER),
        }
    }

    fn joined(&self, call: &Call, arguments: &[NodeEstimate<'d>]) -> Estimate {
        let Some((list, node)) = arguments.first().zip(call.arguments.first()) else { return costs(ONE) };
        let count = list.size();
        let items = match node.result {
            Type::List(_) => count.times(self.item_size(list)),
            _ => NOTHING,
        };
        let between = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
        let separators = arguments.get(1).map_or(NOTHING, |separator| separator.size().times(between));
        let size = items.plus(separators);
        sized(size.scaled(CHARACTER), size)
    }
}

fn is_text(kind: &Type) -> bool {
    matches!(kind, Type::String | Type::Bytes)
}

fn literal_int(call: &Call, index: usize) -> Option<i64> {
    match call.arguments.get(index)?.kind {
        Kind::Literal(Value::Int(number)) => Some(number),
        _ => None,
    }
}

fn regex_cost(text: Range, pattern: Range) -> Range {
    // A long pattern costs something on an empty text too.
    text.plus(ONE).scaled(CHARACTER).times(pattern.scaled(REGEX_CHARACTER))
}

/// Returns the smaller size, since a comparison stops where the shorter value ends.
fn smaller(a: Range, b: Range) -> Range {
    let max = a.max.min(b.max);
    Range { min: u64::from(max > 0), max }.scaled(CHARACTER)
}

/// Returns the cost of `==` and `!=`. Only `==` has a fixed cost for the types of Kubernetes' libraries.
fn equality_cost(call: &Call, arguments: &[NodeEstimate<'_>]) -> Range {
    let sizes = smaller(arguments[0].size(), arguments[1].size());
    let (left, right) = (&call.arguments[0].result, &call.arguments[1].result);
    match left {
        Type::Opaque(name) if call.name == "_==_" && left == right => match *name {
            types::FORMAT => Range { min: 1, max: LONGEST_FORMAT_NAME }.scaled(CHARACTER),
            types::URL => Range { min: 1, max: arguments[1].size.map_or(1, |size| size.max) }.scaled(CHARACTER),
            _ => ONE,
        },
        _ => sizes,
    }
}

/// Returns the cost of comparing addresses byte by byte, 4 or 16. A network in a network is masked first.
fn network_cost(name: &str) -> Range {
    let bytes = Range { min: 4, max: 16 };
    let compared = bytes.plus(bytes).scaled(CHARACTER);
    if name == "containsIP" { compared } else { compared.plus(bytes.scaled(CHARACTER)).plus(ONE) }
}

fn selector_cost(text: Range) -> Range {
    // The shortest requirement has two characters: `k,`.
    let requirements = text.scaled(0.5);
    Range::exactly(LIST).plus(text.scaled(CHARACTER)).plus(requirements.scaled(SELECTOR_REQUIREMENT))
}

/// Returns the estimate of a new list with this cost for each item.
fn new_list(factor: f64, size: Range) -> Estimate {
    sized(size.scaled(factor).plus(ONE).plus(Range::exactly(LIST)), size)
}

/// Returns the size of a text after a replacement.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let max = match (old.min, new.max <= old.min) {
        // The empty text matches between all characters, and at both ends.
        (0, _) => text.max.saturating_add(1).saturating_mul(new.max).saturating_add(text.max),
        (_, true) => text.max,
        (shortest, false) => text.max.div_ceil(shortest).saturating_mul(new.max),
    };
    let min = match (old.max, old.max <= new.min) {
        (0, _) => text.min.saturating_add(1).saturating_mul(new.min).saturating_add(text.min),
        (_, true) => text.min,
        (longest, false) => text.min.div_ceil(longest).saturating_mul(new.min),
    };
    Range { min, max }
}
