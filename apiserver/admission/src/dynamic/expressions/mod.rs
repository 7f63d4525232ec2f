//! CEL expressions over one write: the variables that they read, the values of these in a request, and the cost limits.
//!
//! Reading order: `cel::admission::Scope` compiles an `Expression`; an [`Activation`] holds the values of one request;
//! [`Variables`] evaluate the expression over these within a [`Budget`]; [`MatchConditions`] combine all of this for
//! webhooks and policies. Corresponds to k8s.io/apiserver/pkg/admission/plugin/cel.

pub mod activation;
pub mod authorizer;
pub mod budget;
pub mod error;
pub mod match_conditions;
#[cfg(test)]
mod tests;
pub mod values;
pub mod variables;

pub use activation::{Activation, Subject};
pub use authorizer::Authorizer;
pub use budget::{Budget, OutOfBudget};
pub use error::ExpressionError;
pub use match_conditions::{MatchConditions, Verdict};
pub use variables::Variables;
