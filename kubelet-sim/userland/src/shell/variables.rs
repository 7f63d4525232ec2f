//! The variables of a shell, and the scopes of its functions.

use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Variable {
    /// `None` for a variable that is only marked, as by `export A`.
    pub value: Option<String>,
    pub is_exported: bool,
    pub is_read_only: bool,
}

/// The variables, and those that `local` hides until a function returns.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    by_name: BTreeMap<String, Variable>,
    hidden: Vec<Vec<(String, Option<Variable>)>>,
}

impl Variables {
    /// Takes the environment over; every variable of it is exported.
    pub fn of(environment: &BTreeMap<String, String>) -> Self {
        let variable = |value: &String| Variable { value: Some(value.clone()), is_exported: true, is_read_only: false };
        let by_name = environment.iter().map(|(name, value)| (name.clone(), variable(value)));
        Self { by_name: by_name.collect(), hidden: Vec::new() }
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.by_name.get(name)?.value.as_deref()
    }

    /// Sets a value; the error is the message about a variable that is read-only.
    pub fn set(&mut self, name: &str, value: impl Into<String>) -> Result<(), String> {
        let variable = self.by_name.entry(name.to_owned()).or_default();
        if variable.is_read_only {
            return Err(format!("{name}: is read only"));
        }
        variable.value = Some(value.into());
        Ok(())
    }

    pub fn unset(&mut self, name: &str) -> Result<(), String> {
        if self.by_name.get(name).is_some_and(|variable| variable.is_read_only) {
            return Err(format!("{name}: is read only"));
        }
        self.by_name.remove(name);
        Ok(())
    }

    /// Changes a variable's marks; makes it when it is missing.
    pub fn mark(&mut self, name: &str, mark: impl FnOnce(&mut Variable)) {
        mark(self.by_name.entry(name.to_owned()).or_default());
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Variable)> {
        self.by_name.iter().map(|(name, variable)| (name.as_str(), variable))
    }

    /// Returns what programs see.
    pub fn exported(&self) -> BTreeMap<String, String> {
        let exported = self.by_name.iter().filter(|(_, variable)| variable.is_exported);
        exported.filter_map(|(name, variable)| Some((name.clone(), variable.value.clone()?))).collect()
    }

    pub fn enter(&mut self) {
        self.hidden.push(Vec::new());
    }

    /// Restores what `local` has hidden.
    pub fn leave(&mut self) {
        for (name, before) in self.hidden.pop().into_iter().flatten().rev() {
            match before {
                Some(variable) => drop(self.by_name.insert(name, variable)),
                None => drop(self.by_name.remove(&name)),
            }
        }
    }

    /// Hides a variable until the function returns; false outside of functions.
    pub fn hide(&mut self, name: &str) -> bool {
        let Some(scope) = self.hidden.last_mut() else { return false };
        scope.push((name.to_owned(), self.by_name.get(name).cloned()));
        true
    }
}
