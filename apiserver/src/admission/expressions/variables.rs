//! `variables`: named expressions of a policy, each evaluated at most once, and only where another one speaks of it.
//!
//! Corresponds to k8s.io/apiserver/pkg/admission/plugin/cel composition.

use super::budget::{Budget, OutOfBudget};
use super::facts::Facts;
use cel::admission::{Expression, Scope};
use cel::{Key, Map, Type, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The variables that a policy declares, each speaking only of those before it.
#[derive(Debug, Default)]
pub struct Declared {
    variables: Vec<(Arc<str>, Result<Expression, String>)>,
}

impl Declared {
    /// Adds a variable; `scope` learns of it. A broken one is of any type to those that speak of it.
    pub fn add(&mut self, name: &str, text: &str, scope: &mut Scope) -> Result<(), String> {
        let compiled = scope.compile(text, &[]);
        let kind = compiled.as_ref().map_or(Type::Dyn, |expression| expression.result().clone());
        scope.variables.get_or_insert_with(BTreeMap::new).insert(name.to_owned(), kind);
        let told = compiled.as_ref().map(|_| ()).map_err(Clone::clone);
        self.variables.push((name.into(), compiled));
        told
    }

    /// The places of the variables that an expression needs, also through others.
    fn needed(&self, expression: &Expression) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        self.need(expression, self.variables.len(), &mut needed);
        // Those before a variable come later in this walk, and each is walked once.
        for place in (0..self.variables.len()).rev() {
            if let (true, Ok(inner)) = (needed.contains(&place), &self.variables[place].1) {
                self.need(inner, place, &mut needed);
            }
        }
        needed
    }

    /// Those before a place that an expression speaks of itself.
    fn need(&self, expression: &Expression, before: usize, needed: &mut BTreeSet<usize>) {
        let Some(names) = expression.variables() else { return needed.extend(0..before) };
        // Of two of one name the later one is meant.
        let place = |name: &Arc<str>| self.variables[..before].iter().rposition(|(known, _)| known == name);
        needed.extend(names.iter().filter_map(place));
    }
}

/// What they are in one request.
pub struct Variables<'p> {
    declared: &'p Declared,
    found: BTreeMap<usize, Value>,
}

impl<'p> Variables<'p> {
    pub fn of_policy(declared: &'p Declared) -> Self {
        Self { declared, found: BTreeMap::new() }
    }

    /// Nothing is declared.
    pub fn none() -> Variables<'static> {
        static NONE: Declared = Declared { variables: Vec::new() };
        Variables::of_policy(&NONE)
    }

    /// The value of an expression that may speak of them, or why it has none.
    pub fn evaluate(
        &mut self,
        expression: &Expression,
        facts: &Facts,
        budget: &mut Budget,
    ) -> Result<Result<Value, String>, OutOfBudget> {
        let composed = self.of(expression, facts, budget)?;
        let outcome = budget.run(expression, facts.values(expression.names(), &composed))?;
        Ok(outcome.map_err(|why| format!("expression '{}' resulted in error: {why}", expression.text)))
    }

    // Deviation: a variable is evaluated, and paid for, where an expression speaks of it, even in a branch that is not
    // taken. What goes wrong with it concerns only who looks at it, as in Kubernetes.
    /// Those that an expression needs.
    fn of(&mut self, expression: &Expression, facts: &Facts, budget: &mut Budget) -> Result<Value, OutOfBudget> {
        if self.declared.variables.is_empty() {
            return Ok(Value::Null);
        }
        for place in self.declared.needed(expression) {
            if self.found.contains_key(&place) {
                continue;
            }
            let (name, compiled) = &self.declared.variables[place];
            let value = match compiled {
                Err(why) => Err(format!("composited variable \"{name}\" fails to compile: {why}")),
                Ok(inner) => {
                    let values = facts.values(inner.names(), &self.value(place));
                    let outcome = budget.run(inner, values)?;
                    outcome.map_err(|why| format!("composited variable \"{name}\" fails to evaluate: {why}"))
                }
            };
            self.found.insert(place, value.unwrap_or_else(|why| Value::Broken(why.into())));
        }
        Ok(self.value(self.declared.variables.len()))
    }

    /// Those before a place that have been evaluated.
    fn value(&self, before: usize) -> Value {
        let found = self.found.range(..before);
        Value::map(
            found
                .map(|(place, value)| (Key::String(self.declared.variables[*place].0.clone()), value.clone()))
                .collect::<Map>(),
        )
    }
}
