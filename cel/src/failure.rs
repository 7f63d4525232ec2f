//! Why an expression has no value.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The limit of the meter was reached.
    TooCostly,
    Error(Arc<str>),
}

pub fn error<T>(message: impl AsRef<str>) -> Result<T, Failure> {
    Err(Failure::Error(message.as_ref().into()))
}
