//! Reads the fields of a document strictly, and collects every mistake.

use crate::problem::Problem;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One object of a document and the path to it.
#[derive(Clone, Debug)]
pub struct Fields<'d> {
    members: &'d Map<String, Value>,
    path: String,
}

/// The mistakes of a document.
#[derive(Debug, Default)]
pub struct Reader {
    pub problems: Vec<Problem>,
}

impl Reader {
    pub fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Problem::new(path, message));
    }

    /// Reads an object that may have these fields and no others.
    pub fn object<'d>(&mut self, value: &'d Value, path: &str, known: &[&str]) -> Option<Fields<'d>> {
        let Value::Object(members) = value else {
            self.report(path, "must be an object");
            return None;
        };
        let fields = Fields { members, path: path.to_owned() };
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            self.report(fields.path_of(name), "unknown field");
        }
        Some(fields)
    }

    /// Reads the text of a field; an empty text counts as none.
    pub fn text<'d>(&mut self, fields: &Fields<'d>, name: &str) -> Option<&'d str> {
        match fields.get(name)? {
            Value::String(text) => Some(text.as_str()).filter(|text| !text.is_empty()),
            _ => self.refuse(fields, name, "must be a string"),
        }
    }

    pub fn required_text<'d>(&mut self, fields: &Fields<'d>, name: &str) -> Option<&'d str> {
        let problems = self.problems.len();
        let found = self.text(fields, name);
        if found.is_none() && self.problems.len() == problems {
            self.report(fields.path_of(name), "required");
        }
        found
    }

    pub fn flag(&mut self, fields: &Fields<'_>, name: &str) -> bool {
        match fields.get(name) {
            None => false,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => self.refuse(fields, name, "must be a boolean").unwrap_or_default(),
        }
    }

    /// Reads a whole number that is not negative.
    pub fn count(&mut self, fields: &Fields<'_>, name: &str) -> Option<u64> {
        match fields.get(name)?.as_u64() {
            Some(count) => Some(count),
            None => self.refuse(fields, name, "must be a whole number that is not negative"),
        }
    }

    pub fn child<'d>(&mut self, fields: &Fields<'d>, name: &str, known: &[&str]) -> Option<Fields<'d>> {
        self.object(fields.get(name)?, &fields.path_of(name), known)
    }

    /// Reads the items of a list, each with its path; none if the field is absent.
    pub fn items<'d>(&mut self, fields: &Fields<'d>, name: &str) -> Vec<(&'d Value, String)> {
        match fields.get(name) {
            None => Vec::new(),
            Some(Value::Array(items)) => {
                let path = fields.path_of(name);
                items.iter().enumerate().map(|(index, item)| (item, format!("{path}[{index}]"))).collect()
            }
            Some(_) => self.refuse(fields, name, "must be a list").unwrap_or_default(),
        }
    }

    pub fn texts(&mut self, fields: &Fields<'_>, name: &str) -> Vec<String> {
        let mut texts = Vec::new();
        for (item, path) in self.items(fields, name) {
            match item.as_str() {
                Some(text) => texts.push(text.to_owned()),
                None => self.report(path, "must be a string"),
            }
        }
        texts
    }

    /// Reads an object whose members are all texts.
    pub fn text_map(&mut self, fields: &Fields<'_>, name: &str) -> BTreeMap<String, String> {
        let Some(value) = fields.get(name) else { return BTreeMap::new() };
        let Value::Object(members) = value else {
            return self.refuse(fields, name, "must be an object").unwrap_or_default();
        };
        let mut texts = BTreeMap::new();
        for (key, member) in members {
            match member.as_str() {
                Some(text) => drop(texts.insert(key.clone(), text.to_owned())),
                None => self.report(format!("{}.{key}", fields.path_of(name)), "must be a string"),
            }
        }
        texts
    }

    fn refuse<T>(&mut self, fields: &Fields<'_>, name: &str, message: &str) -> Option<T> {
        self.report(fields.path_of(name), message);
        None
    }
}

impl<'d> Fields<'d> {
    /// Returns a member; null counts as absent.
    pub fn get(&self, name: &str) -> Option<&'d Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    pub fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    pub fn path(&self) -> &str {
        &self.path
    }
}
