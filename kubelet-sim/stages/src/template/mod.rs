//! Templates: Go's `text/template`, with the functions that stages use.
//!
//! Corresponds to text/template and sigs.k8s.io/kwok/pkg/utils/gotpl. A template has `if`, `with`, `range`, `define`,
//! `template`, `block`, variables, pipelines and comments, and trims blanks with `{{-` and `-}}`. Rendering is bounded
//! by a `Budget`, so that a template that calls itself ends with an error.
//!
//! Deviation: of Go's own functions `call`, `html`, `js` and `urlquery` are missing, and of Sprig's those that draw
//! random numbers, read the clock or the environment, or make keys. They are refused when the stage is read.

pub mod facts;
mod value;
mod budget;
mod token;
mod syntax;
mod parse;
mod printf;
mod functions;
mod evaluate;

pub use facts::Facts;

use crate::template::budget::Budget;
use crate::template::value::Value;
use proto::serializer::yaml;
use serde_json::Value as Json;
use std::sync::Arc;

/// A parsed template; clones share it.
#[derive(Clone, Debug)]
pub struct Template(Arc<syntax::Program>);

impl Template {
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text.trim()).map(|program| Self(Arc::new(program)))
    }

    /// Renders the template with an object as its dot.
    pub fn render(&self, object: &Json, facts: &Facts) -> Result<String, String> {
        let mut evaluation = evaluate::Evaluation::new(&self.0, facts, Budget::default());
        evaluation.render(Value::of(object))?;
        Ok(evaluation.written)
    }

    /// Renders the template and reads the result as YAML.
    pub fn render_yaml(&self, object: &Json, facts: &Facts) -> Result<Json, String> {
        let text = self.render(object, facts)?;
        yaml::parse(text.as_bytes()).map(|parsed| parsed.value)
    }
}

#[cfg(test)]
mod tests;
