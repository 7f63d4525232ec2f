//! `variables`: named expressions of a policy, each evaluated at most once, when another expression reads it.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/cel composition.

use super::activation::Activation;
use super::budget::{Budget, OutOfBudget};
use cel::admission::{Declared, Expression};
use cel::{Key, Map, Value};
use std::collections::BTreeMap;

/// The variables of a policy in one request.
pub struct Variables<'p> {
    declared: &'p Declared,
    found: BTreeMap<usize, Value>,
}

impl<'p> Variables<'p> {
    pub fn of_policy(declared: &'p Declared) -> Self {
        Self { declared, found: BTreeMap::new() }
    }

    /// Returns variables of a policy that declares none.
    pub fn none() -> Variables<'static> {
        static NONE: Declared = Declared::none();
        Variables::of_policy(&NONE)
    }

    /// Evaluates an expression that may read the variables; the inner error says why it has no value.
    pub fn evaluate(
        &mut self,
        expression: &Expression,
        activation: &Activation,
        budget: &mut Budget,
    ) -> Result<Result<Value, String>, OutOfBudget> {
        let composed = self.of(expression, activation, budget)?;
        let outcome = budget.run(expression, activation.values(expression.names(), &composed))?;
        Ok(outcome.map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text)))
    }

    /// Evaluates the variables that an expression reads.
    ///
    /// Deviation: a variable is evaluated, and charged, if an expression mentions it, even in a branch that is not taken. Its
    /// error affects only expressions that read its value, as in Kubernetes.
    fn of(
        &mut self,
        expression: &Expression,
        activation: &Activation,
        budget: &mut Budget,
    ) -> Result<Value, OutOfBudget> {
        if self.declared.is_empty() {
            return Ok(Value::Null);
        }
        for place in self.declared.needed(expression) {
            if self.found.contains_key(&place) {
                continue;
            }
            let (name, compiled) = self.declared.at(place);
            let value = match compiled {
                Err(why) => Err(format!("composited variable \"{name}\" fails to compile: {why}")),
                Ok(inner) => {
                    let values = activation.values(inner.names(), &self.value(place));
                    let outcome = budget.run(inner, values)?;
                    outcome.map_err(|why| format!("composited variable \"{name}\" fails to evaluate: {why}"))
                }
            };
            self.found.insert(place, value.unwrap_or_else(|why| Value::Broken(why.into())));
        }
        Ok(self.value(self.declared.len()))
    }

    /// Returns the evaluated variables before index `before`.
    fn value(&self, before: usize) -> Value {
        let found = self.found.range(..before);
        Value::map(
            found
                .map(|(place, value)| (Key::String(self.declared.at(*place).0.clone()), value.clone()))
                .collect::<Map>(),
        )
    }
}
