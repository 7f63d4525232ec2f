//! The Common Expression Language, in which rules of custom resources, policies and match conditions are written.
//!
//! `Environment::compile` reads (`parse`), checks (`check`) and estimates (`estimate`) an expression over declared
//! variables; `Program::run` evaluates it on a `Meter`, so that no expression runs unbounded, whatever it says. Outside of
//! `admission` nothing here knows whose variables they are. Corresponds to github.com/google/cel-go and
//! k8s.io/apiserver/pkg/cel.

// From text to a tree.
mod source;
mod token;
mod syntax;
mod macros;
mod parse;

// From the tree to something that has a type and a cost.
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

// Types and sizes from a schema.
mod names;
pub mod declared;

// And to a value.
mod failure;
mod url;
mod value;
mod json;
mod meter;
mod evaluate;
mod library;

// What must hold whatever is written.
pub mod fuzz;
#[cfg(test)]
mod chance;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod conformance;

pub mod admission;

pub use declaration::{Declaration, MAX_REQUEST_BYTES};
pub use extension::Library;
pub use failure::{Failure, error};
pub use library::parse_duration;
pub use meter::Meter;
pub use names::escaped;
pub use parse::is_reserved;
pub use types::{ObjectType, QUANTITY, Type};
pub use value::{Foreign, Key, List, Map, Message, Nature, Outcome, Value, no_overload};

use extension::Extensions;
use node::Node;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The variables that expressions are about.
#[derive(Clone, Debug, Default)]
pub struct Environment<'d> {
    variables: Vec<(&'static str, Type, Option<&'d Declaration>)>,
    extensions: Extensions,
    has_bindings: bool,
}

/// An expression that can be evaluated.
#[derive(Debug)]
pub struct Program {
    node: Node,
    /// What it can cost at most.
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

    /// With `cel.bind(name, value, expression)`.
    pub fn with_bindings(mut self) -> Self {
        self.has_bindings = true;
        self
    }

    /// With types that values are written of: `Name{field: value}`.
    pub fn with_messages(mut self, messages: fn(&str) -> Option<Type>) -> Self {
        self.extensions.messages = Some(messages);
        self
    }

    /// The error is worded as Kubernetes words it, with the place of each mistake.
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

    /// Whether it speaks of the variable at a place of the environment.
    pub fn reads(&self, variable: usize) -> bool {
        self.node.reads(variable)
    }

    /// The fields that it selects of a variable; `None` where it speaks of the variable as a whole.
    pub fn fields_of(&self, variable: usize) -> Option<BTreeSet<Arc<str>>> {
        let mut fields = BTreeSet::new();
        self.node.fields_of(variable, &mut fields).then_some(fields)
    }

    /// The value, given those of the environment's variables in order.
    pub fn run(&self, variables: Vec<Value>, meter: &mut Meter) -> Result<Value, Failure> {
        evaluate::evaluate(&self.node, variables, meter)
    }
}
