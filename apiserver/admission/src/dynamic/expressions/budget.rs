//! `Budget`: the remaining CEL cost of the expressions of one policy in one request.
//!
//! Corresponds to k8s.io/apiserver/pkg/apis/cel and to the evaluation in k8s.io/apiserver/pkg/admission/plugin/cel.

use cel::admission::Expression;
use cel::{Failure, Meter, Value};

/// Cost limit of one expression.
const CALL_LIMIT: u64 = 1_000_000;
/// Cost limit of all expressions of one policy together, for one parameter.
const POLICY_LIMIT: u64 = 10_000_000;
/// Cost limit of all match conditions together.
const MATCH_CONDITIONS_LIMIT: u64 = POLICY_LIMIT / 4;

const SPENT: &str = "validation failed due to running out of cost budget, no further validation rules will be run";

#[derive(Clone, Copy, Debug)]
pub struct Budget {
    left: u64,
}

/// The budget is spent; no further expression is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{SPENT}")]
pub struct OutOfBudget;

impl Budget {
    pub fn of_policy() -> Self {
        Self { left: POLICY_LIMIT }
    }

    pub fn of_match_conditions() -> Self {
        Self { left: MATCH_CONDITIONS_LIMIT }
    }

    /// Evaluates an expression; the inner error says why it has no value.
    pub fn run(&mut self, expression: &Expression, values: Vec<Value>) -> Result<Result<Value, String>, OutOfBudget> {
        let mut meter = Meter::new(CALL_LIMIT);
        let outcome = expression.program().run(values, &mut meter);
        self.left = self.left.checked_sub(meter.cost()).ok_or(OutOfBudget)?;
        Ok(outcome.map_err(|failure| match failure {
            Failure::TooCostly => "operation cancelled: actual cost limit exceeded".to_owned(),
            Failure::Error(why) => why.to_string(),
        }))
    }
}
