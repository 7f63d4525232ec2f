//! An expression after checking: names are slots, calls know their function, every node has a type.

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
    /// A slot of the scope.
    Variable(usize),
    Select(Box<Node>, Arc<str>),
    /// `has(a.b)`
    Test(Box<Node>, Arc<str>),
    /// `a.?b`
    OptionalSelect(Box<Node>, Arc<str>),
    /// Of an operator, or of a function: the target, if there is one, is the first argument.
    Call(Call),
    /// With the indexes of the optional items.
    List(Vec<Node>, Vec<usize>),
    Map(Vec<Entry>),
    /// `Name{field: value}`
    Message(Arc<str>, Vec<Field>),
    Loop(Box<Loop>),
}

#[derive(Debug)]
pub struct Call {
    pub name: &'static str,
    /// Those that may be meant; more than one where a type is not known.
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

/// A comprehension. Its variables stand in the slots from `first_slot` on: the accumulator, then one or two of the range.
#[derive(Debug)]
pub struct Loop {
    pub first_slot: usize,
    pub has_two: bool,
    /// It runs over nothing and binds a name.
    pub is_bind: bool,
    pub range: Node,
    pub start: Node,
    pub goes_on: Node,
    pub step: Node,
    pub result: Node,
}

impl Node {
    /// Every node below, without itself.
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

    /// Whether a slot is read anywhere in it.
    pub fn reads(&self, slot: usize) -> bool {
        matches!(self.kind, Kind::Variable(own) if own == slot) || self.parts().into_iter().any(|part| part.reads(slot))
    }

    /// Gathers the fields that are selected of a slot; false where the slot is read as a whole.
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
