//! Label selectors, which are parsed from a query string or built from an object.
//!
//! Corresponds to k8s.io/apimachinery/pkg/labels.

mod parse;

use super::names;
use super::status::FieldError;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    Equals,
    DoubleEquals,
    NotEquals,
    In,
    NotIn,
    Exists,
    DoesNotExist,
    GreaterThan,
    LessThan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    pub key: String,
    pub operator: Operator,
    pub values: BTreeSet<String>,
}

/// A list of requirements that must all hold. `Selector::default()` selects everything, `Selector::nothing()` nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    nothing: bool,
}

impl Requirement {
    /// Builds a requirement if the number and form of its values are right. The error is worded as Kubernetes words it.
    pub fn new(key: &str, operator: Operator, values: BTreeSet<String>) -> Result<Self, String> {
        let mut errors = Vec::new();
        let complaints = names::label_key(key);
        if !complaints.is_empty() {
            errors.push(FieldError::invalid("key", &json!(key), complaints.join("; ")));
        }
        let count_error = match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                Some("for 'in', 'notin' operators, values set can't be empty")
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                Some("exact-match compatibility requires one single value")
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                Some("values set must be empty for exists and does not exist")
            }
            Operator::GreaterThan | Operator::LessThan if values.len() != 1 => {
                Some("for 'Gt', 'Lt' operators, exactly one value is required")
            }
            _ => None,
        };
        if let Some(complaint) = count_error {
            errors.push(FieldError::invalid("values", &json!(values), complaint));
        }
        if matches!(operator, Operator::GreaterThan | Operator::LessThan) {
            for (i, value) in values.iter().enumerate().filter(|(_, v)| v.parse::<i64>().is_err()) {
                let complaint = "for 'Gt', 'Lt' operators, the value must be an integer";
                errors.push(FieldError::invalid(format!("values[{i}]"), &json!(value), complaint));
            }
        }
        for (i, value) in values.iter().enumerate() {
            let complaints = names::label_value(value);
            if !complaints.is_empty() {
                let field = format!("values[{i}][{key}]");
                errors.push(FieldError::invalid(field, &json!(value), complaints.join("; ")));
            }
        }
        match errors.as_slice() {
            [] => Ok(Self { key: key.to_owned(), operator, values }),
            [one] => Err(one.to_string()),
            several => {
                let listed: Vec<String> = several.iter().map(ToString::to_string).collect();
                Err(format!("[{}]", listed.join(", ")))
            }
        }
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let label = labels.get(&self.key);
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(|l| self.values.contains(l)),
            Operator::NotEquals | Operator::NotIn => label.is_none_or(|l| !self.values.contains(l)),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => self.compares(label, |label, bound| label > bound),
            Operator::LessThan => self.compares(label, |label, bound| label < bound),
        }
    }

    fn compares(&self, label: Option<&String>, holds: fn(i64, i64) -> bool) -> bool {
        let number = |text: &String| text.parse::<i64>().ok();
        match (label.and_then(number), self.values.first().and_then(number)) {
            (Some(label), Some(bound)) => holds(label, bound),
            _ => false,
        }
    }
}

impl Selector {
    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { nothing: true, ..Self::default() }
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    /// Builds a selector of `key=value` pairs, as Services have, without checking their form.
    pub fn from_map<K: Into<String>, V: Into<String>>(pairs: impl IntoIterator<Item = (K, V)>) -> Self {
        let equals = |(key, value): (K, V)| Requirement {
            key: key.into(),
            operator: Operator::Equals,
            values: BTreeSet::from([value.into()]),
        };
        Self::new(pairs.into_iter().map(equals).collect())
    }

    /// Parses the value of `?labelSelector=` or `kubectl -l`. The error is worded as Kubernetes words it.
    pub fn parse(text: &str) -> Result<Self, String> {
        parse::selector(text)
    }

    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns whether the selector selects everything.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        !self.nothing && self.requirements.iter().all(|r| r.matches(labels))
    }

    /// Returns the value that label `key` must have, if the selector requires one. An index can look it up.
    pub fn exact_value(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find_map(|r| match r.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In if r.key == key && r.values.len() == 1 => {
                r.values.first().map(String::as_str)
            }
            _ => None,
        })
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text)
    }
}

impl Operator {
    /// Returns the operator in the query syntax, empty for a unary one.
    fn symbol(self) -> &'static str {
        match self {
            Operator::Equals => "=",
            Operator::DoubleEquals => "==",
            Operator::NotEquals => "!=",
            Operator::In => " in ",
            Operator::NotIn => " notin ",
            Operator::GreaterThan => ">",
            Operator::LessThan => "<",
            Operator::Exists | Operator::DoesNotExist => "",
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bang = if self.operator == Operator::DoesNotExist { "!" } else { "" };
        write!(f, "{bang}{}{}", self.key, self.operator.symbol())?;
        let values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        match self.operator {
            Operator::In | Operator::NotIn => write!(f, "({})", values.join(",")),
            _ => f.write_str(&values.join(",")),
        }
    }
}

/// Writes the form that `parse` reads. `Selector::nothing()` has no such form and becomes the empty string.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed: Vec<String> = self.requirements.iter().map(ToString::to_string).collect();
        f.write_str(&listed.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn what_each_form_selects() {
        let sets = [labels(&[("a", "b")]), labels(&[("a", "c"), ("c", "d")]), labels(&[("a", "1")]), labels(&[])];
        let cases = [
            ("", "0123"),
            ("a=b", "0"),
            ("a==b", "0"),
            ("a!=b", "123"),
            ("a in (b,c)", "01"),
            ("a notin (b)", "123"),
            ("a", "012"),
            ("!a", "3"),
            ("a,c=d", "1"),
            ("a>1", ""),
            ("a<2", "2"),
            ("a>0", "2"),
            ("a in ()", ""),
            ("a=", ""),
            ("a=b,a!=b", ""),
            ("a in (b,)", "0"),
            ("a in (,b)", "0"),
            ("a in (,,b)", "0"),
            ("a ==b , c", ""),
            ("in in (in),notin", ""),
            ("! a", "3"),
        ];
        for (text, expected) in cases {
            let selector = Selector::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
            let found: String =
                sets.iter().enumerate().filter(|(_, l)| selector.matches(l)).map(|(i, _)| i.to_string()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn selectors_are_written_sorted_by_key() {
        let cases = [
            ("b=1,a", "a,b=1"),
            ("a==b", "a==b"),
            ("a in (z,b)", "a in (b,z)"),
            ("a notin (b),!c,d!=e,f>1,g<2", "a notin (b),!c,d!=e,f>1,g<2"),
            ("a=", "a="),
        ];
        for (text, written) in cases {
            let selector = Selector::parse(text).unwrap();
            assert_eq!(selector.to_string(), written);
            assert_eq!(Selector::parse(written).unwrap(), selector);
        }
        assert_eq!(Selector::from_map([("x", "1"), ("a", "2")]).to_string(), "a=2,x=1");
    }

    #[test]
    fn nothing_matches_nothing_and_everything_everything() {
        assert!(!Selector::nothing().matches(&labels(&[])) && !Selector::nothing().is_empty());
        assert!(Selector::everything().matches(&labels(&[("a", "b")])));
    }

    #[test]
    fn an_index_can_ask_for_the_exact_value() {
        let selector = Selector::parse("app in (web),tier!=db,zone in (a,b)").unwrap();
        assert_eq!(selector.exact_value("app"), Some("web"));
        assert_eq!(selector.exact_value("tier"), None);
        assert_eq!(selector.exact_value("zone"), None);
    }
}
