//! The tree of a template.

use crate::template::functions::Function;
use crate::template::value::Value;
use std::collections::BTreeMap;

/// A template and the templates that it defines.
#[derive(Debug, Default)]
pub struct Program {
    pub body: Vec<Node>,
    pub defined: BTreeMap<String, Vec<Node>>,
}

#[derive(Debug)]
pub enum Node {
    Text(String),
    /// Prints the value of a pipeline that declares nothing.
    Print(Pipeline),
    /// `if` and `with`: the branches in order, and what applies without any.
    If(Vec<Branch>, Vec<Node>),
    Range {
        over: Pipeline,
        body: Vec<Node>,
        otherwise: Vec<Node>,
    },
    Call {
        name: String,
        argument: Option<Pipeline>,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub struct Branch {
    /// True for `with`, which makes the value the dot of its body.
    pub sets_dot: bool,
    pub condition: Pipeline,
    pub body: Vec<Node>,
}

/// Commands of which each gets the value of the one before it as its last argument.
#[derive(Debug)]
pub struct Pipeline {
    /// Variables that the value is given to: two for a range with index and element.
    pub variables: Vec<String>,
    /// True for `:=`, false for `=`.
    pub declares: bool,
    pub commands: Vec<Command>,
}

/// A value, or a function and its arguments.
#[derive(Debug)]
pub struct Command {
    pub head: Operand,
    pub arguments: Vec<Operand>,
}

/// A term and the fields behind it: `$pod.metadata.name`.
#[derive(Debug)]
pub struct Operand {
    pub term: Term,
    pub fields: Vec<String>,
}

#[derive(Debug)]
pub enum Term {
    Dot,
    Variable(String),
    Literal(Value),
    Function(Function),
    Pipeline(Box<Pipeline>),
}
