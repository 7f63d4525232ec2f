//! What an expression can cost at most, told from its text and from how large its variables can be.
//!
//! Corresponds to github.com/google/cel-go/checker/cost.go and to k8s.io/apiserver/pkg/cel/library/cost.go.

use super::costs::{CHARACTER, LIST, MAP, MESSAGE, REGEX_CHARACTER, scaled};
use super::declaration::Declaration;
use super::node::{Call, Kind, Loop, Node};
use super::types::Type;
use super::value::Value;

/// From the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

const ONE: Range = Range { min: 1, max: 1 };
const NOTHING: Range = Range { min: 0, max: 0 };
/// Of what nobody can tell the size.
const UNKNOWN: Range = Range { min: 0, max: u64::MAX };

impl Range {
    fn exactly(number: u64) -> Self {
        Self { min: number, max: number }
    }

    fn up_to(max: u64) -> Self {
        Self { min: 0, max }
    }

    fn plus(self, other: Self) -> Self {
        Self { min: self.min.saturating_add(other.min), max: self.max.saturating_add(other.max) }
    }

    fn times(self, other: Self) -> Self {
        Self { min: self.min.saturating_mul(other.min), max: self.max.saturating_mul(other.max) }
    }

    fn scaled(self, factor: f64) -> Self {
        Self { min: scaled(self.min, factor), max: scaled(self.max, factor) }
    }

    fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }
}

/// What is known of a node.
#[derive(Clone, Copy)]
struct Known<'d> {
    cost: Range,
    /// Of the value, where the expression tells it.
    size: Option<Range>,
    /// The part of a variable that it is.
    declared: Option<&'d Declaration>,
    is_scalar: bool,
}

impl<'d> Known<'d> {
    fn size(&self) -> Range {
        match (self.size, self.declared) {
            (Some(size), _) => size,
            (None, Some(declared)) => Range::up_to(declared.max_elements),
            (None, None) if self.is_scalar => ONE,
            (None, None) => UNKNOWN,
        }
    }

    fn element(&self) -> Option<&'d Declaration> {
        self.declared.and_then(Declaration::element)
    }
}

/// The cost of an expression over variables, each with what is declared of it.
pub fn estimate(node: &Node, variables: &[Option<&Declaration>]) -> Range {
    let scope = variables.iter().map(|declared| Slot { declared: *declared, size: None }).collect();
    Estimator { scope }.node(node).cost
}

#[derive(Clone, Copy)]
struct Slot<'d> {
    declared: Option<&'d Declaration>,
    size: Option<Range>,
}

struct Estimator<'d> {
    scope: Vec<Slot<'d>>,
}

impl<'d> Estimator<'d> {
    fn node(&mut self, node: &Node) -> Known<'d> {
        let is_scalar = node.result.is_scalar();
        let plain = |cost: Range| Known { cost, size: None, declared: None, is_scalar };
        match &node.kind {
            Kind::Literal(value) => Known { size: literal_size(value), ..plain(NOTHING) },
            Kind::Variable(slot) => {
                let Slot { declared, size } = self.scope[*slot];
                Known { declared, size, ..plain(ONE) }
            }
            Kind::Select(operand, name) => {
                let inner = self.node(operand);
                let is_counted = matches!(operand.result, Type::Map(..) | Type::Object(_) | Type::Param(_));
                let cost = inner.cost.plus(if is_counted { ONE } else { NOTHING });
                let declared = inner.declared.and_then(|declared| declared.field(name).or(declared.element()));
                Known { declared, ..plain(cost) }
            }
            Kind::Test(operand, _) => plain(self.node(operand).cost),
            Kind::OptionalSelect(operand, _) => plain(self.node(operand).cost.plus(ONE)),
            Kind::List(items, _) => {
                let cost = self.sum(items).plus(Range::exactly(LIST));
                Known { size: Some(Range::exactly(items.len() as u64)), ..plain(cost) }
            }
            Kind::Map(entries) => {
                let mut cost = Range::exactly(MAP);
                for entry in entries {
                    cost = cost.plus(self.node(&entry.key).cost).plus(self.node(&entry.value).cost);
                }
                Known { size: Some(Range::exactly(entries.len() as u64)), ..plain(cost) }
            }
            Kind::Message(_, fields) => {
                let cost =
                    fields.iter().fold(Range::exactly(MESSAGE), |sum, field| sum.plus(self.node(&field.value).cost));
                plain(cost)
            }
            Kind::Call(call) => Known { is_scalar, ..self.call(call) },
            Kind::Loop(l) => Known { is_scalar, ..self.comprehension(l) },
        }
    }

    fn sum(&mut self, nodes: &[Node]) -> Range {
        nodes.iter().fold(NOTHING, |sum, node| sum.plus(self.node(node).cost))
    }

    fn comprehension(&mut self, l: &Loop) -> Known<'d> {
        let (range, start) = (self.node(&l.range), self.node(&l.start));
        let first_slot = self.scope.len();
        self.scope.push(Slot { declared: start.declared, size: start.size.filter(|_| l.is_bind) });
        if l.is_bind {
            let result = self.node(&l.result);
            self.scope.truncate(first_slot);
            return Known { cost: range.cost.plus(start.cost).plus(result.cost), ..result };
        }
        let item = Slot { declared: range.element(), size: None };
        // Keys are texts of which nothing is declared, and indexes are numbers.
        let unknown = Slot { declared: None, size: Some(NOTHING) };
        let is_map = matches!(l.range.result, Type::Map(..));
        match (l.has_two, is_map) {
            (true, _) => self.scope.extend([unknown, item]),
            (false, true) => self.scope.push(unknown),
            (false, false) => self.scope.push(item),
        }
        let round = self.node(&l.goes_on).cost.plus(self.node(&l.step).cost);
        self.scope.truncate(first_slot + 1);
        let result = self.node(&l.result);
        self.scope.truncate(first_slot);
        let cost = range.cost.plus(start.cost).plus(result.cost).plus(range.size().times(round));
        // What is gathered is as large as what it was gathered from.
        let size = match l.start.kind {
            Kind::List(..) | Kind::Map(_) => Some(range.size()),
            Kind::Literal(_) => start.size,
            _ => None,
        };
        Known { cost, size, declared: None, is_scalar: false }
    }

    fn call(&mut self, call: &Call) -> Known<'d> {
        let arguments: Vec<Known<'d>> = call.arguments.iter().map(|argument| self.node(argument)).collect();
        let all = arguments.iter().fold(NOTHING, |sum, argument| sum.plus(argument.cost));
        let known = |cost: Range, size: Option<Range>| Known { cost, size, declared: None, is_scalar: false };
        match (call.name, arguments.as_slice()) {
            ("_&&_" | "_||_", [left, right]) => {
                known(Range { min: left.cost.min, max: left.cost.plus(right.cost).max }, None)
            }
            ("_?_:_", [condition, yes, no]) => {
                known(condition.cost.plus(yes.cost.or(no.cost)), Some(yes.size().or(no.size())))
            }
            ("dyn", [argument]) => known(all.plus(ONE), argument.size),
            ("_[_]", [whole, _]) => Known { declared: whole.element(), ..known(all.plus(ONE), None) },
            _ => {
                let (cost, size) = of_call(call, &arguments);
                known(all.plus(cost), size)
            }
        }
    }
}

fn literal_size(value: &Value) -> Option<Range> {
    match value {
        Value::String(text) => Some(Range::exactly(text.len() as u64)),
        Value::Null | Value::Type(_) => None,
        other => Some(Range::exactly(other.size())),
    }
}

/// What a call costs beside its arguments, and how large its result is.
fn of_call(call: &Call, arguments: &[Known<'_>]) -> (Range, Option<Range>) {
    let size = |index: usize| arguments.get(index).map_or(UNKNOWN, Known::size);
    let walk = |index: usize| size(index).scaled(CHARACTER);
    let may_be = |wanted: fn(&Type) -> bool| {
        call.overloads.iter().any(|overload| overload.arguments.first().is_some_and(wanted))
    };
    let is_text = may_be(|kind| matches!(kind, Type::String | Type::Bytes));
    let is_list = may_be(|kind| matches!(kind, Type::List(_)));
    let smaller = || {
        let max = size(0).max.min(size(1).max);
        Range { min: u64::from(max > 0), max }.scaled(CHARACTER)
    };
    match call.name {
        "_+_" if is_text => (size(0).plus(size(1)).scaled(CHARACTER), Some(size(0).plus(size(1)))),
        "_+_" if is_list => (ONE, Some(size(0).plus(size(1)))),
        "_==_" | "_!=_" => (smaller(), None),
        "_<_" | "_<=_" | "_>_" | "_>=_" if is_text => (smaller(), None),
        "@in" if call.overloads.iter().any(|overload| matches!(overload.arguments[1], Type::List(_))) => {
            (size(1), None)
        }
        "startsWith" | "endsWith" => (walk(1), None),
        "contains" => (walk(0).times(walk(1)), None),
        "matches" => (regex_cost(size(0), size(1)), None),
        "find" | "findAll" => (regex_cost(size(0), size(1)), Some(Range::up_to(size(0).max))),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => (of_items(call, arguments, is_list), None),
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" => (walk(0), Some(size(0))),
        "replace" => (size(0).scaled(2.0 * CHARACTER), Some(replaced(size(0), size(1), size(2)))),
        "split" => {
            let most = match call.arguments.get(2).map(|node| &node.kind) {
                Some(Kind::Literal(Value::Int(most))) => u64::try_from(*most).unwrap_or(size(0).max),
                _ => size(0).max,
            };
            (size(0).scaled(2.0 * CHARACTER), Some(Range::up_to(most)))
        }
        "join" => joined(arguments),
        "quantity" | "isQuantity" | "isURL" | "isIP" | "isCIDR" | "cidr" | "semver" | "isSemver" => (walk(0), None),
        "ip" if is_text => (walk(0), None),
        "validate" => (walk(1), None),
        "bytes" if is_text => (walk(0), Some(Range { min: size(0).min, max: size(0).max.saturating_mul(4) })),
        "string" if is_text => (walk(0), Some(Range { min: size(0).min / 4, max: size(0).max })),
        "sets.contains" | "sets.intersects" => (size(0).times(size(1)), None),
        "sets.equivalent" => (size(0).times(size(1)).times(Range::exactly(2)), None),
        _ => (ONE, None),
    }
}

fn regex_cost(text: Range, pattern: Range) -> Range {
    // An empty text does not make a long expression free.
    text.plus(ONE).scaled(CHARACTER).times(pattern.scaled(REGEX_CHARACTER))
}

/// One for each item, and the characters of those that are texts.
fn of_items(call: &Call, arguments: &[Known<'_>], is_list: bool) -> Range {
    let Some(target) = arguments.first() else { return ONE };
    if !is_list {
        return target.size().scaled(CHARACTER);
    }
    let is_text =
        matches!(&call.arguments[0].result, Type::List(items) if matches!(**items, Type::String | Type::Bytes));
    let item = match (is_text, target.element()) {
        (false, _) => ONE,
        (true, Some(element)) => ONE.plus(Range::up_to(element.max_elements).scaled(CHARACTER)),
        (true, None) => ONE.plus(UNKNOWN.scaled(CHARACTER)),
    };
    target.size().times(item)
}

fn joined(arguments: &[Known<'_>]) -> (Range, Option<Range>) {
    let Some(list) = arguments.first() else { return (ONE, None) };
    let count = list.size();
    let item = list.element().map_or(UNKNOWN, |element| Range::up_to(element.max_elements));
    let between = Range { min: count.min.saturating_sub(1), max: count.max.saturating_sub(1) };
    let separators = arguments.get(1).map_or(NOTHING, |separator| separator.size().times(between));
    let size = count.times(item).plus(separators);
    (size.scaled(CHARACTER), Some(size))
}

/// How large a text can be in which one thing was replaced by another.
fn replaced(text: Range, old: Range, new: Range) -> Range {
    let max = match (old.min, new.max <= old.min) {
        // Nothing stands between all characters, and around them.
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
