//! Expressions in CEL about one write: what they may speak of, what that is in this request, and what they may cost.
//!
//! `cel::admission::Scope` compiles an `Expression`, `Facts` are the values of one request, and `Variables` evaluate one over
//! the other on a `Budget`.
//! `match_conditions` puts these together for webhooks and policies. Corresponds to
//! k8s.io/apiserver/pkg/admission/plugin/cel.

pub mod authorizer;
pub mod budget;
pub mod facts;
pub mod match_conditions;
#[cfg(test)]
mod tests;
pub mod values;
pub mod variables;

pub use authorizer::Authorizer;
pub use budget::{Budget, OutOfBudget};
pub use facts::{Facts, Subject};
pub use match_conditions::{MatchConditions, Verdict};
pub use variables::Variables;
