//! Path elements: the steps from an object's root to one of its fields, as `fieldsV1` writes them.
//!
//! `f:name` is a field, `k:{…}` an item of a list by its keys, `v:…` an item of a set, `i:0` an item by position.
//! Corresponds to sigs.k8s.io/structured-merge-diff/fieldpath.

use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// One element of a path. Keys and values are held as canonical JSON, so that equal ones compare equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    Field(Arc<str>),
    Key(Arc<str>),
    Value(Arc<str>),
    Index(usize),
}

/// A path from the root of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(pub Vec<PathElement>);

/// The reasons for which an entry cannot be read: it is of a later version of the notation, or invalid.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum PathError {
    #[error("missing colon: {0:?}")]
    NoColon(String),
    #[error("not JSON in {0:?}")]
    NotJson(String),
}

impl PathElement {
    pub fn field(name: &str) -> Self {
        Self::Field(name.into())
    }

    /// Returns the element of an item that is identified by the values of its keys.
    pub fn key(keys: Map<String, Value>) -> Self {
        Self::Key(Value::Object(keys).to_string().into())
    }

    pub fn value(value: &Value) -> Self {
        Self::Value(value.to_string().into())
    }

    /// Parses an element; `Ok(None)` for a kind of element that a later version may define.
    pub fn parse(text: &str) -> Result<Option<Self>, PathError> {
        let bytes = text.as_bytes();
        if bytes.len() < 2 || bytes[1] != b':' {
            return Err(PathError::NoColon(text.to_owned()));
        }
        let rest = &text[2..];
        let json = || serde_json::from_str::<Value>(rest).map_err(|_| PathError::NotJson(text.to_owned()));
        Ok(Some(match bytes[0] {
            b'f' => Self::field(rest),
            b'v' => Self::value(&json()?),
            b'k' => match json()? {
                Value::Object(keys) => Self::key(keys),
                _ => return Err(PathError::NotJson(text.to_owned())),
            },
            b'i' => Self::Index(rest.parse().map_err(|_| PathError::NotJson(text.to_owned()))?),
            _ => return Ok(None),
        }))
    }

    /// Returns the element as a key of `fieldsV1`.
    pub fn notation(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(keys) => format!("k:{keys}"),
            Self::Value(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// Prints an element as conflicts and errors show it: `.spec`, `[name="a"]`, `[="x"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(keys) => {
                let keys: Map<String, Value> = serde_json::from_str(keys).map_err(|_| fmt::Error)?;
                let shown: Vec<String> = keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
                write!(f, "[{}]", shown.join(","))
            }
            Self::Value(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

impl Path {
    pub fn of_fields(names: &[&str]) -> Self {
        Self(names.iter().map(|name| PathElement::field(name)).collect())
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|element| element.fmt(f))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_written_and_shown() {
        let cases = [
            ("f:spec", ".spec"),
            ("f:a.b/c", ".a.b/c"),
            (r#"k:{"name":"a"}"#, r#"[name="a"]"#),
            (r#"k:{"port":53,"protocol":"UDP"}"#, r#"[port=53,protocol="UDP"]"#),
            (r#"v:"x""#, r#"[="x"]"#),
            ("v:5", "[=5]"),
            ("i:3", "[3]"),
        ];
        for (text, shown) in cases {
            let element = PathElement::parse(text).unwrap().unwrap();
            assert_eq!(element.notation(), text);
            assert_eq!(element.to_string(), shown);
        }
    }

    #[test]
    fn equal_keys_are_equal_whatever_their_order() {
        assert_eq!(PathElement::parse(r#"k:{"a":1,"b":2}"#), PathElement::parse(r#"k:{ "b":2, "a":1 }"#));
    }

    #[test]
    fn garbage_is_refused_and_the_future_is_skipped() {
        assert!(PathElement::parse("spec").is_err());
        assert!(PathElement::parse("k:5").is_err());
        assert!(PathElement::parse("v:{").is_err());
        assert_eq!(PathElement::parse("q:x"), Ok(None));
    }
}
