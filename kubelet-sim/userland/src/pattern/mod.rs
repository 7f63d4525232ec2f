//! Patterns of text: the globs of the shell, and regular expressions.

pub mod glob;
pub mod regular;
