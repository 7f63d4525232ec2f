//! What expressions about one write may speak of, and the types of it; the values are the API server's.
//!
//! Corresponds to the compilers of k8s.io/apiserver/pkg/admission/plugin/cel.

pub mod authorization;
pub mod mutation;
pub mod scope;
pub mod variables;

pub use scope::{Expression, MATCH_CONDITION, Name, Scope};
pub use variables::Declared;
