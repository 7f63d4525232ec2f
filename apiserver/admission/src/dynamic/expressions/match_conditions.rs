//! Match conditions: expressions that must all be true for a webhook or policy to run.
//!
//! They are compiled when the configuration changes, and evaluated for each request that rules and selectors match:
//!
//! ```text
//! let conditions = MatchConditions::compile(&webhook["matchConditions"], &MATCH_CONDITION);
//! let activation = Activation::of(attributes, Subject::of(attributes), &authorizer);
//! match conditions.evaluate(&activation) {
//!     Verdict::Matches => …,
//!     Verdict::DoesNotMatch(name) => …,   // not called
//!     Verdict::Error(why) => …,           // by the failure policy: rejected, or not called
//! }
//! ```
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions.

use super::activation::Activation;
use super::budget::Budget;
use super::error::ExpressionError;
use super::variables::Variables;
use cel::admission::{Expression, Scope};
use cel::{Type, Value};
use serde_json::Value as Json;

#[derive(Debug, Default)]
pub struct MatchConditions {
    conditions: Vec<Condition>,
}

#[derive(Debug)]
struct Condition {
    name: String,
    /// An error only if a newer server stored the expression.
    expression: Result<Expression, String>,
}

/// Result of all conditions together. One that is false decides, whatever errors others have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Matches,
    /// The name of the first condition that is false.
    DoesNotMatch(String),
    /// The errors of all conditions, in Kubernetes' wording; the failure policy decides.
    Error(ExpressionError),
}

impl MatchConditions {
    /// `conditions` is a list of `{name, expression}`, or null.
    pub fn compile(conditions: &Json, scope: &Scope) -> Self {
        let text = |condition: &Json, field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        let conditions = conditions.as_array().into_iter().flatten().map(|condition| Condition {
            name: text(condition, "name"),
            expression: scope.compile(&text(condition, "expression"), &[Type::Bool]),
        });
        Self { conditions: conditions.collect() }
    }

    pub fn is_empty(&self) -> bool {
        self.conditions.is_empty()
    }

    pub fn evaluate(&self, activation: &Activation) -> Verdict {
        let mut budget = Budget::of_match_conditions();
        let mut results = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            results.push(match &condition.expression {
                Err(why) => Err(ExpressionError::Compilation(why.clone())),
                Ok(expression) => match Variables::none().evaluate(expression, activation, &mut budget) {
                    Ok(outcome) => outcome.map_err(ExpressionError::Evaluation),
                    Err(spent) => return Verdict::Error(spent.into()),
                },
            });
        }
        let is_false = |result: &Result<Value, ExpressionError>| matches!(result, Ok(Value::Bool(false)));
        if let Some(place) = results.iter().position(is_false) {
            return Verdict::DoesNotMatch(self.conditions[place].name.clone());
        }
        let mut errors: Vec<ExpressionError> = results.into_iter().filter_map(Result::err).collect();
        match errors.len() {
            0 => Verdict::Matches,
            1 => Verdict::Error(errors.remove(0)),
            _ => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Verdict::Error(ExpressionError::Evaluation(format!("[{}]", errors.join(", "))))
            }
        }
    }
}
