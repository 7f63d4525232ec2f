//! Field selectors: `metadata.name=web,status.phase!=Running`, terms about the values of an object's fields.
//!
//! Corresponds to k8s.io/apimachinery/pkg/fields.

use std::borrow::Cow;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The path as written, or the index key once the selector is resolved.
    pub path: Cow<'static, str>,
    pub equal: bool,
    pub value: String,
}

/// A list of terms that must all hold. Without terms, it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    terms: Vec<Term>,
}

impl FieldSelector {
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the value of `?fieldSelector=`. The error is worded as Kubernetes words it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        let terms = parts.map(|part| Term::parse(part, text)).collect::<Result<_, _>>()?;
        Ok(Self { terms })
    }

    /// Replaces every path by what `rename` makes of it. Fails with the first error of `rename`.
    pub fn with_paths(mut self, rename: impl Fn(&str) -> Result<Cow<'static, str>, String>) -> Result<Self, String> {
        for term in &mut self.terms {
            term.path = rename(&term.path)?;
        }
        Ok(self)
    }

    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns whether every term holds for the values that `lookup` gives to paths.
    pub fn matches_by<'a>(&self, lookup: impl Fn(&str) -> &'a str) -> bool {
        self.terms.iter().all(|term| (lookup(&term.path) == term.value) == term.equal)
    }

    /// Returns the value that a field must have, if the selector requires one. An index can look it up.
    pub fn exact_value(&self, key: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.path == key).map(|term| term.value.as_str())
    }
}

impl Term {
    fn parse(part: &str, whole: &str) -> Result<Self, String> {
        let not_understood = || format!("invalid selector: '{whole}'; can't understand '{part}'");
        let at = part
            .char_indices()
            .find(|(i, c)| *c == '=' || part[*i..].starts_with("!="))
            .map(|(i, _)| i)
            .ok_or_else(not_understood)?;
        let (path, rest) = part.split_at(at);
        let (equal, value) = match rest.strip_prefix("!=") {
            Some(value) => (false, value),
            None => (true, rest.strip_prefix("==").unwrap_or(&rest[1..])),
        };
        Ok(Self { path: Cow::Owned(path.to_owned()), equal, value: unescape(value)? })
    }
}

/// Splits at commas that are not escaped.
fn split_terms(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (Vec::new(), 0, false);
    for (i, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                parts.push(&text[start..i]);
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Removes the escapes of a value. A backslash may only precede a comma, an equals sign or another backslash.
fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(special @ ('\\' | ',' | '=')) => plain.push(special),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            // Kubernetes shows the number of the character.
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {}", u32::from(c))),
            _ => plain.push(c),
        }
    }
    Ok(plain)
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,").replace('=', "\\=")
}

/// Writes the form that `parse` reads.
impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, term) in self.terms.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let operator = if term.equal { "=" } else { "!=" };
            write!(f, "{comma}{}{operator}{}", term.path, escape(&term.value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_each_form_means() {
        let cases = [
            ("", Ok("")),
            ("metadata.name=a", Ok("metadata.name=a")),
            ("metadata.name==a", Ok("metadata.name=a")),
            ("metadata.name!=a", Ok("metadata.name!=a")),
            ("b=1,a=2,", Ok("a=2,b=1")),
            ("=x", Ok("=x")),
            ("a=l\\,1", Ok("a=l\\,1")),
            ("a=x\\=y\\\\", Ok("a=x\\=y\\\\")),
            ("metadata.name", Err("invalid selector: 'metadata.name'; can't understand 'metadata.name'")),
            ("a=1,b in (c)", Err("invalid selector: 'a=1,b in (c)'; can't understand 'b in (c)'")),
            ("a=\\x", Err("invalid field selector: invalid escape sequence: \\x")),
            ("a=x\\", Err("invalid field selector: invalid escape sequence: \\")),
            ("a=b=c", Err("invalid field selector: unescaped character in value: 61")),
        ];
        for (text, expected) in cases {
            let found = FieldSelector::parse(text).map(|s| s.to_string());
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn exact_values_are_those_of_equal_terms() {
        let both = FieldSelector::parse("metadata.name=web,status.phase!=Running").unwrap();
        assert_eq!(both.exact_value("metadata.name"), Some("web"));
        assert_eq!(both.exact_value("status.phase"), None);
    }
}
