//! Estimates the cost of an expression from its text and the declared sizes of its variables.
//!
//! The estimate decides which rules a CustomResourceDefinition may have, so it equals Kubernetes' estimate even where that
//! is imprecise. Corresponds to github.com/google/cel-go/checker/cost.go.

mod calls;
mod range;
#[cfg(test)]
mod tests;

use super::costs::{LIST, MAP, MESSAGE};
use super::declaration::Declaration;
use super::node::{Call, Kind, Loop, Node};
use super::types::Type;
use super::value::Value;
pub use range::Range;
use range::{NOTHING, ONE, UNKNOWN};

/// The part of the declared variables that a value comes from.
#[derive(Clone, Copy, Debug)]
enum Origin<'d> {
    /// The value was computed by the expression.
    Computed,
    Declared(&'d Declaration),
    /// The value is a key of a declared map.
    Key,
    /// The value is below a variable, but has no declaration.
    Undeclared,
}

/// A step from a value to one of its parts.
#[derive(Clone, Copy, Debug)]
enum PathStep<'n> {
    Field(&'n str),
    /// An item of a list, or a value of a map.
    Element,
    Key,
    Index,
}

impl Origin<'_> {
    /// Returns the declared size. Keys have no declaration and count as empty.
    fn size(self) -> Option<Range> {
        match self {
            Origin::Declared(declared) => Some(Range::up_to(declared.max_elements)),
            Origin::Key => Some(NOTHING),
            Origin::Computed | Origin::Undeclared => None,
        }
    }
}

/// Sizes of the keys and values of a list or map.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Entries {
    is_list: bool,
    key: Range,
    value: Range,
}

impl Entries {
    fn or(self, other: Self) -> Self {
        Self { is_list: self.is_list, key: self.key.or(other.key), value: self.value.or(other.value) }
    }
}

/// Returns the union, if both are known.
fn either(a: Option<Entries>, b: Option<Entries>) -> Option<Entries> {
    Some(a?.or(b?))
}

/// The estimate of a node's cost and its value's size.
#[derive(Clone, Copy, Debug)]
struct NodeEstimate<'d> {
    cost: Range,
    size: Option<Range>,
    entries: Option<Entries>,
    origin: Origin<'d>,
}

impl NodeEstimate<'_> {
    fn size(&self) -> Range {
        self.size.unwrap_or(UNKNOWN)
    }
}

/// Estimates the cost of an expression over variables with their declarations.
pub fn estimate(node: &Node, variables: &[Option<&Declaration>]) -> Range {
    let origins = variables.iter().map(|declared| declared_origin(*declared));
    let scope = origins.map(|origin| Slot { origin, size: None, entries: None }).collect();
    let root = declared_origin(variables.iter().flatten().next().copied());
    Estimator { scope, root }.node(node).cost
}

fn declared_origin(declared: Option<&Declaration>) -> Origin<'_> {
    declared.map_or(Origin::Undeclared, Origin::Declared)
}

#[derive(Clone, Copy)]
struct Slot<'d> {
    origin: Origin<'d>,
    size: Option<Range>,
    entries: Option<Entries>,
}

struct Estimator<'d> {
    scope: Vec<Slot<'d>>,
    /// The first declared variable.
    root: Origin<'d>,
}

impl<'d> Estimator<'d> {
    /// Returns the origin of a part of a value.
    ///
    /// Kubernetes takes the first name of a path for the variable's and skips it. So a value one step below a computed one
    /// counts as large as the whole variable: an item of `self.split('.')` counts as large as `self`.
    fn below(&self, origin: Origin<'d>, step: PathStep<'_>) -> Origin<'d> {
        let Origin::Declared(declared) = origin else {
            return match origin {
                Origin::Computed => self.root,
                _ => Origin::Undeclared,
            };
        };
        match step {
            PathStep::Field(name) => declared_origin(declared.field(name)),
            PathStep::Element => declared_origin(declared.element()),
            PathStep::Key if matches!(declared.kind, Type::Map(..)) => Origin::Key,
            PathStep::Key | PathStep::Index => Origin::Undeclared,
        }
    }

    fn node(&mut self, node: &Node) -> NodeEstimate<'d> {
        let of_type = node.result.is_scalar().then_some(ONE);
        let computed = |cost: Range, size: Option<Range>, entries: Option<Entries>| NodeEstimate {
            cost,
            size: size.or(of_type),
            entries,
            origin: Origin::Computed,
        };
        match &node.kind {
            // The name of a type counts as an undeclared variable.
            Kind::Literal(Value::Type(_)) => {
                NodeEstimate { cost: ONE, size: self.root.size(), entries: None, origin: self.root }
            }
            Kind::Literal(value) => computed(NOTHING, literal_size(value), None),
            Kind::Variable(slot) => {
                let Slot { origin, size, entries } = self.scope[*slot];
                NodeEstimate { cost: ONE, size: origin.size().or(of_type).or(size), entries, origin }
            }
            Kind::Select(operand, name) => {
                let inner = self.node(operand);
                let is_counted = matches!(operand.result, Type::Map(..) | Type::Object(_) | Type::Param(_));
                let cost = inner.cost.plus(if is_counted { ONE } else { NOTHING });
                let origin = self.below(inner.origin, PathStep::Field(name));
                NodeEstimate { cost, size: origin.size().or(of_type), entries: None, origin }
            }
            Kind::Test(operand, _) => computed(self.node(operand).cost, None, None),
            Kind::OptionalSelect(operand, _) => computed(self.node(operand).cost.plus(ONE), None, None),
            Kind::List(items, _) => self.list(items),
            Kind::Map(entries) => {
                let (mut cost, mut key, mut value) = (Range::exactly(MAP), None, None);
                for entry in entries {
                    let (of_key, of_value) = (self.node(&entry.key), self.node(&entry.value));
                    cost = cost.plus(of_key.cost).plus(of_value.cost);
                    key = Some(of_key.size().or(key.unwrap_or(of_key.size())));
                    value = Some(of_value.size().or(value.unwrap_or(of_value.size())));
                }
                let held = Entries { is_list: false, key: key.unwrap_or(NOTHING), value: value.unwrap_or(NOTHING) };
                computed(cost, Some(Range::exactly(entries.len() as u64)), Some(held))
            }
            Kind::Message(_, fields) => {
                let cost =
                    fields.iter().fold(Range::exactly(MESSAGE), |sum, field| sum.plus(self.node(&field.value).cost));
                computed(cost, None, None)
            }
            Kind::Call(call) => self.call(call, of_type),
            Kind::Loop(l) if l.is_bind => self.bind(l),
            Kind::Loop(l) => {
                let (cost, size, entries) = self.comprehension(l);
                computed(cost, size, entries)
            }
        }
    }

    fn list(&mut self, items: &[Node]) -> NodeEstimate<'d> {
        let (mut cost, mut value) = (Range::exactly(LIST), None);
        for item in items {
            let known = self.node(item);
            cost = cost.plus(known.cost);
            value = Some(known.size().or(value.unwrap_or(known.size())));
        }
        let held = Entries { is_list: true, key: ONE, value: value.unwrap_or(NOTHING) };
        let size = Some(Range::exactly(items.len() as u64));
        NodeEstimate { cost, size, entries: Some(held), origin: Origin::Computed }
    }

    fn bind(&mut self, l: &Loop) -> NodeEstimate<'d> {
        let (range, start) = (self.node(&l.range), self.node(&l.start));
        let first_slot = self.scope.len();
        self.scope.push(Slot { origin: start.origin, size: start.size, entries: start.entries });
        let result = self.node(&l.result);
        self.scope.truncate(first_slot);
        NodeEstimate { cost: range.cost.plus(start.cost).plus(result.cost), origin: Origin::Computed, ..result }
    }

    fn comprehension(&mut self, l: &Loop) -> (Range, Option<Range>, Option<Entries>) {
        let (range, start) = (self.node(&l.range), self.node(&l.start));
        let first_slot = self.scope.len();
        self.scope.push(Slot { origin: start.origin, size: start.size, entries: start.entries });
        let held = range.entries;
        let is_list = held.map_or(matches!(l.range.result, Type::List(_)), |held| held.is_list);
        let key_step = if is_list { PathStep::Index } else { PathStep::Key };
        let key = Slot { origin: self.below(range.origin, key_step), size: held.map(|held| held.key), entries: None };
        let value = Slot {
            origin: self.below(range.origin, PathStep::Element),
            size: held.map(|held| held.value),
            entries: None,
        };
        match (l.has_two, is_list) {
            (true, _) => self.scope.extend([key, value]),
            (false, true) => self.scope.push(value),
            (false, false) => self.scope.push(key),
        }
        let (goes_on, step) = (self.node(&l.goes_on), self.node(&l.step));
        self.scope.truncate(first_slot + 1);
        let result = self.node(&l.result);
        self.scope.truncate(first_slot);
        let rounds = range.size().times(goes_on.cost.plus(step.cost));
        let cost = range.cost.plus(start.cost).plus(result.cost).plus(rounds);
        // The result is at most as long as the range.
        match l.start.kind {
            Kind::List(..) | Kind::Map(_) => (cost, Some(range.size()), step.entries),
            Kind::Literal(_) => (cost, start.size, None),
            _ => (cost, None, None),
        }
    }

    fn call(&mut self, call: &Call, of_type: Option<Range>) -> NodeEstimate<'d> {
        let arguments: Vec<NodeEstimate<'d>> = call.arguments.iter().map(|argument| self.node(argument)).collect();
        let all = arguments.iter().fold(NOTHING, |sum, argument| sum.plus(argument.cost));
        let computed = |cost: Range, size: Option<Range>, entries: Option<Entries>| NodeEstimate {
            cost,
            size: size.or(of_type),
            entries,
            origin: Origin::Computed,
        };
        match (call.name, arguments.as_slice()) {
            ("_&&_" | "_||_", [left, right]) => {
                computed(Range { min: left.cost.min, max: left.cost.plus(right.cost).max }, None, None)
            }
            ("_?_:_", [condition, yes, no]) => {
                let cost = condition.cost.plus(yes.cost.or(no.cost));
                computed(cost, Some(yes.size().or(no.size())), either(yes.entries, no.entries))
            }
            ("dyn", [argument]) => computed(all.plus(ONE), argument.size, argument.entries),
            ("_[_]", [whole, _]) if !matches!(call.arguments[0].result, Type::Optional(_)) => {
                let origin = self.below(whole.origin, PathStep::Element);
                let size = whole.entries.map(|held| held.value).or(origin.size()).or(of_type);
                NodeEstimate { cost: all.plus(ONE), size, entries: None, origin }
            }
            _ => {
                let estimate = self.overloads(call, &arguments);
                computed(all.plus(estimate.cost), estimate.size, estimate.entries)
            }
        }
    }
}

/// Returns the size in characters, bytes, items or entries; 1 for a scalar.
fn literal_size(value: &Value) -> Option<Range> {
    Some(Range::exactly(value.size()))
}
