//! The variables of admission expressions and their types. The API server provides the values.
//!
//! Corresponds to the compilers of k8s.io/apiserver/pkg/admission/plugin/cel.

pub mod authorization;
pub mod mutation;
pub mod scope;
pub mod variables;

pub use scope::{Expression, MATCH_CONDITION, Name, Scope};
pub use variables::Declared;
