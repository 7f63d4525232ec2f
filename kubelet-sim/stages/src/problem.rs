//! `Problem`: one mistake in a stage, with the path of the field.

use std::fmt;

/// A mistake in one field of a stage, such as `spec.next.foo: unknown field`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Path from the root of the document; empty when the whole document is wrong.
    pub path: String,
    pub message: String,
}

impl Problem {
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.message),
            path => write!(f, "{path}: {}", self.message),
        }
    }
}
