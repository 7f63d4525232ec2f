//! Queries: the part of jq that selectors, delays and weights of stages use.
//!
//! Corresponds to github.com/itchyny/gojq, as sigs.k8s.io/kwok/pkg/utils/expression uses it. A query has no loops, no
//! definitions and no variables, so it always ends; `MAX_VALUES` bounds what it may produce on the way.
//!
//! Deviation: of jq's language, queries have paths, `..`, pipes, commas, `//`, `and`, `or`, comparisons, arithmetic,
//! `if`, lists and the functions of `functions`. Everything else is refused when the stage is read.

mod values;
mod functions;
mod token;
mod syntax;
mod parse;
mod evaluate;

use serde_json::Value;
use std::borrow::Cow;

/// Limit on the values that the parts of one query may produce together. New values count with all that is in them.
pub const MAX_VALUES: usize = 100_000;

/// A parsed query.
#[derive(Clone, Debug)]
pub struct Query(syntax::Filter);

impl Query {
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::parse(text).map(Self)
    }

    /// Returns the values that the query finds in an object. After an error it finds none: selectors cannot tell a
    /// field that is absent from one of another type.
    pub fn run<'d>(&self, object: &'d Value) -> Vec<Cow<'d, Value>> {
        self.evaluate(object).unwrap_or_default()
    }

    /// Returns the values that the query finds, or why it fails.
    pub fn evaluate<'d>(&self, object: &'d Value) -> Result<Vec<Cow<'d, Value>>, String> {
        evaluate::Evaluation { values_left: MAX_VALUES }.run(&self.0, Cow::Borrowed(object))
    }
}

#[cfg(test)]
mod tests;
