//! The checked expression: names are slots, calls have overloads, and every node has a type.

use super::functions::Overload;
use super::types::Type;
use super::value::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub struct Node {
    pub result: Type,
    pub kind: Kind,
}

#[derive(Debug)]
pub enum Kind {
    Literal(Value),
    /// A variable, by its slot in the scope.
    Variable(usize),
    Select(Box<Node>, Arc<str>),
    /// `has(a.b)`
    Test(Box<Node>, Arc<str>),
    /// `a.?b`
    OptionalSelect(Box<Node>, Arc<str>),
    /// A call of an operator or a function; a method's target is the first argument.
    Call(Call),
    /// A list, with the indexes of the optional items.
    List(Vec<Node>, Vec<usize>),
    Map(Vec<Entry>),
    /// `Name{field: value}`
    Message(Arc<str>, Vec<Field>),
    Loop(Box<Loop>),
}

#[derive(Debug)]
pub struct Call {
    pub name: &'static str,
    /// The possible overloads; more than one if a type is unknown.
    pub overloads: Vec<&'static Overload>,
    pub arguments: Vec<Node>,
}

#[derive(Debug)]
pub struct Entry {
    pub key: Node,
    pub value: Node,
    pub is_optional: bool,
}

#[derive(Debug)]
pub struct Field {
    pub name: Arc<str>,
    pub value: Node,
    pub is_optional: bool,
}

/// A comprehension. Its variables have the slots from `first_slot` on: the accumulator, then one or two for the range.
#[derive(Debug)]
pub struct Loop {
    pub first_slot: usize,
    pub has_two: bool,
    /// True if the comprehension only binds a name.
    pub is_bind: bool,
    pub range: Node,
    pub start: Node,
    pub goes_on: Node,
    pub step: Node,
    pub result: Node,
}

impl Node {
    /// Returns the direct children.
    pub fn parts(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::Literal(_) | Kind::Variable(_) => Vec::new(),
            Kind::Select(operand, _) | Kind::Test(operand, _) | Kind::OptionalSelect(operand, _) => vec![operand],
            Kind::Call(call) => call.arguments.iter().collect(),
            Kind::List(items, _) => items.iter().collect(),
            Kind::Map(entries) => entries.iter().flat_map(|entry| [&entry.key, &entry.value]).collect(),
            Kind::Message(_, fields) => fields.iter().map(|field| &field.value).collect(),
            Kind::Loop(l) => vec![&l.range, &l.start, &l.goes_on, &l.step, &l.result],
        }
    }

    /// Returns true if the node or one below reads a slot.
    pub fn reads(&self, slot: usize) -> bool {
        matches!(self.kind, Kind::Variable(own) if own == slot) || self.parts().into_iter().any(|part| part.reads(slot))
    }

    /// Collects the fields that are selected of a slot. Returns false if the slot is used as a whole.
    pub fn fields_of(&self, slot: usize, fields: &mut BTreeSet<Arc<str>>) -> bool {
        match &self.kind {
            Kind::Variable(own) => *own != slot,
            Kind::Select(operand, name) | Kind::Test(operand, name) | Kind::OptionalSelect(operand, name) if matches!(operand.kind, Kind::Variable(own) if own == slot) =>
            {
                fields.insert(name.clone());
                true
            }
            _ => self.parts().into_iter().all(|part| part.fields_of(slot, fields)),
        }
    }
}
