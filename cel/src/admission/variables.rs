//! `Declared`: the compiled variables of an admission policy, in order.
//!
//! Corresponds to CompositedCompiler of k8s.io/apiserver/pkg/admission/plugin/cel.

use super::{Expression, Scope};
use crate::Type;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The variables that a policy declares. Each may use only those before it.
#[derive(Debug, Default)]
pub struct Declared {
    variables: Vec<(Arc<str>, Result<Expression, String>)>,
}

impl Declared {
    pub const fn none() -> Self {
        Self { variables: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.variables.is_empty()
    }

    pub fn len(&self) -> usize {
        self.variables.len()
    }

    /// Returns the name and the expression of a variable, or the reason why the expression does not compile.
    ///
    /// # Panics
    /// If `place` is not less than [`Self::len`].
    pub fn at(&self, place: usize) -> (&Arc<str>, &Result<Expression, String>) {
        let (name, compiled) = &self.variables[place];
        (name, compiled)
    }

    /// Adds a variable, also to `scope`. One that does not compile has the type `Dyn` there.
    pub fn add(&mut self, name: &str, text: &str, scope: &mut Scope) -> Result<(), String> {
        let compiled = scope.compile(text, &[]);
        let kind = compiled.as_ref().map_or(Type::Dyn, |expression| expression.result().clone());
        scope.variables.get_or_insert_with(BTreeMap::new).insert(name.to_owned(), kind);
        let told = compiled.as_ref().map(|_| ()).map_err(Clone::clone);
        self.variables.push((name.into(), compiled));
        told
    }

    /// Returns the indexes of the variables that an expression needs, directly or through others.
    pub fn needed(&self, expression: &Expression) -> BTreeSet<usize> {
        let mut needed = BTreeSet::new();
        self.need(expression, self.variables.len(), &mut needed);
        // A variable uses only earlier ones, so one backward pass is enough.
        for place in (0..self.variables.len()).rev() {
            if let (true, Ok(inner)) = (needed.contains(&place), &self.variables[place].1) {
                self.need(inner, place, &mut needed);
            }
        }
        needed
    }

    /// Adds the variables before an index that an expression reads directly.
    fn need(&self, expression: &Expression, before: usize, needed: &mut BTreeSet<usize>) {
        let Some(names) = expression.variables() else { return needed.extend(0..before) };
        // If two have the same name, the later one counts.
        let place = |name: &Arc<str>| self.variables[..before].iter().rposition(|(known, _)| known == name);
        needed.extend(names.iter().filter_map(place));
    }
}
