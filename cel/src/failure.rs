//! `Failure`: the reason why an expression has no value.

use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The cost limit was exceeded.
    TooCostly,
    Error(Arc<str>),
}

pub fn error<T>(message: impl AsRef<str>) -> Result<T, Failure> {
    Err(Failure::Error(message.as_ref().into()))
}
