//! The Common Expression Language (CEL) of validation rules, admission policies and match conditions.
//!
//! `Environment::compile` parses (`parse`) and checks (`check`) an expression over declared variables, and estimates its
//! cost (`estimate`). `Program::run` evaluates it with a `Meter`, which bounds every evaluation. Only `admission` and
//! `device` know Kubernetes' variables. Corresponds to github.com/google/cel-go and k8s.io/apiserver/pkg/cel.

// Parsing: from text to a tree.
mod source;
mod token;
mod syntax;
mod macros;
mod parse;

// Checking: from the tree to nodes with types and costs.
mod types;
mod declaration;
mod extension;
mod functions;
mod unify;
mod node;
mod check;
mod literals;
mod costs;
mod estimate;

// Types and sizes from schemas.
mod names;
pub mod declared;

// Evaluating.
mod failure;
mod url;
mod value;
mod json;
mod meter;
mod evaluate;
mod library;

// Fuzzing and tests.
pub mod fuzz;
#[cfg(test)]
mod chance;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod conformance;

pub mod admission;
pub mod device;

pub use declaration::{Declaration, MAX_REQUEST_BYTES};
pub use extension::Library;
pub use failure::{Failure, error};
pub use library::parse_duration;
pub use meter::Meter;
pub use names::escaped;
pub use parse::is_reserved;
pub use types::{ObjectType, QUANTITY, Type};
pub use value::{Foreign, Key, List, ListType, Map, Message, Outcome, Value, no_overload};

use extension::Extensions;
use node::Node;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The variables and extensions of expressions.
#[derive(Clone, Debug, Default)]
pub struct Environment<'d> {
    variables: Vec<(&'static str, Type, Option<&'d Declaration>)>,
    extensions: Extensions,
    has_bindings: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    node: Node,
    /// Highest estimated cost.
    pub max_cost: u64,
}

impl<'d> Environment<'d> {
    pub fn with(mut self, name: &'static str, kind: Type, declared: Option<&'d Declaration>) -> Self {
        self.variables.push((name, kind, declared));
        self
    }

    pub fn with_library(mut self, library: &'static Library) -> Self {
        self.extensions.libraries.push(library);
        self
    }

    /// Adds `cel.bind(name, value, expression)`.
    pub fn with_bindings(mut self) -> Self {
        self.has_bindings = true;
        self
    }

    /// Adds message types, for values like `Name{field: value}`.
    pub fn with_messages(mut self, messages: fn(&str) -> Option<Type>) -> Self {
        self.extensions.messages = Some(messages);
        self
    }

    /// Compiles an expression. The error is worded as in Kubernetes, with the place of each mistake.
    pub fn compile(&self, text: &str) -> Result<Program, String> {
        let tree = parse::parse(text, self.has_bindings).map_err(|error| error.shown(text))?;
        let variables: Vec<(&str, Type)> = self.variables.iter().map(|(name, kind, _)| (*name, kind.clone())).collect();
        let node = check::check(&tree, &variables, &self.extensions).map_err(|errors| source::shown(&errors, text))?;
        literals::check(&tree).map_err(|errors| source::shown(&errors, text))?;
        let declared: Vec<Option<&Declaration>> = self.variables.iter().map(|(.., declared)| *declared).collect();
        let max_cost = estimate::estimate(&node, &declared).max;
        Ok(Program { node, max_cost })
    }
}

impl Program {
    pub fn result(&self) -> &Type {
        &self.node.result
    }

    /// Returns true if the expression reads the variable with this index in the environment.
    pub fn reads(&self, variable: usize) -> bool {
        self.node.reads(variable)
    }

    /// Returns the fields that the expression selects of a variable; `None` if it uses the variable as a whole.
    pub fn fields_of(&self, variable: usize) -> Option<BTreeSet<Arc<str>>> {
        let mut fields = BTreeSet::new();
        self.node.fields_of(variable, &mut fields).then_some(fields)
    }

    /// Evaluates the expression with the values of the environment's variables, in order.
    pub fn run(&self, variables: Vec<Value>, meter: &mut Meter) -> Result<Value, Failure> {
        evaluate::evaluate(&self.node, variables, meter)
    }
}
