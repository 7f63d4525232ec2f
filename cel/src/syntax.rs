//! The syntax tree of an expression, with macros expanded.

use super::source::SyntaxError;
use super::value::Value;

/// Deepest tree; a limit, so that recursion does not exhaust the stack.
pub const MAX_DEPTH: usize = 250;

#[derive(Clone, Debug)]
pub struct Expr {
    /// Index of the character that errors point at.
    pub at: usize,
    pub kind: Syntax,
    depth: usize,
}

#[derive(Clone, Debug)]
pub enum Syntax {
    Literal(Value),
    Ident(String),
    Select(Box<Expr>, String),
    /// `has(a.b)`
    Test(Box<Expr>, String),
    /// `a.?b`
    OptionalSelect(Box<Expr>, String),
    /// A call: name, a method's target, and arguments. Operators are functions with names such as `_+_`.
    Call(String, Option<Box<Expr>>, Vec<Expr>),
    /// The items of a list; true for optional ones.
    List(Vec<(Expr, bool)>),
    Map(Vec<(Expr, Expr, bool)>),
    /// `Name{field: value}`: each field with the place of its colon, its value, and true if it is optional.
    Message(String, Vec<(String, usize, Expr, bool)>),
    Comprehension(Box<Comprehension>),
}

#[derive(Clone, Debug)]
pub struct Comprehension {
    pub range: Expr,
    pub first: String,
    pub second: Option<String>,
    pub accumulator: String,
    pub start: Expr,
    pub goes_on: Expr,
    pub step: Expr,
    pub result: Expr,
}

impl Syntax {
    fn parts(&self) -> Vec<&Expr> {
        match self {
            Self::Literal(_) | Self::Ident(_) => Vec::new(),
            Self::Select(operand, _) | Self::Test(operand, _) | Self::OptionalSelect(operand, _) => vec![operand],
            Self::Call(_, target, arguments) => target.as_deref().into_iter().chain(arguments).collect(),
            Self::List(items) => items.iter().map(|(item, _)| item).collect(),
            Self::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Self::Message(_, fields) => fields.iter().map(|(_, _, value, _)| value).collect(),
            Self::Comprehension(c) => vec![&c.range, &c.start, &c.goes_on, &c.step, &c.result],
        }
    }
}

impl Expr {
    /// Returns the direct children.
    pub fn parts(&self) -> Vec<&Self> {
        self.kind.parts()
    }

    pub fn new(at: usize, kind: Syntax) -> Result<Self, SyntaxError> {
        let below = kind.parts().into_iter().map(|part| part.depth).max().unwrap_or(0);
        if below >= MAX_DEPTH {
            return Err(SyntaxError { at, message: format!("expression recursion limit exceeded: {MAX_DEPTH}") });
        }
        Ok(Self { at, kind, depth: below + 1 })
    }

    /// Returns `a.b.c`, if the expression consists of names only.
    pub fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Syntax::Ident(name) => Some(name.clone()),
            Syntax::Select(operand, field) => Some(format!("{}.{field}", operand.qualified_name()?)),
            _ => None,
        }
    }
}
