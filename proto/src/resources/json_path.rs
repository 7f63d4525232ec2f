//! JSON paths: how a custom resource says where a column's value or a replica count stands.
//!
//! Corresponds to k8s.io/client-go/util/jsonpath, the part of it that a CustomResourceDefinition may use: names,
//! indexes, wildcards and filters.

use serde_json::Value;
use std::fmt;
use std::str::FromStr;

/// `.spec.replicas`, `.metadata.annotations['a.b/c']`, `.status.conditions[?(@.type=="Ready")].status`
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Name(String),
    /// From the end if negative.
    Index(i64),
    All,
    Filter {
        path: Vec<Step>,
        test: Test,
    },
}

#[derive(Clone, Debug, PartialEq)]
enum Test {
    Exists,
    Compare(Comparison, Value),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Every value at the path, in document order.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        walk(&self.steps, value)
    }

    /// The first value at the path.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        found = found.into_iter().flat_map(|value| step.of(value)).collect();
    }
    found
}

impl Step {
    fn of<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Name(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => {
                let Value::Array(items) = value else { return Vec::new() };
                let from_end = usize::try_from(index.unsigned_abs()).ok();
                let place = if *index < 0 { from_end.and_then(|n| items.len().checked_sub(n)) } else { from_end };
                place.and_then(|place| items.get(place)).into_iter().collect()
            }
            Self::All => children(value),
            Self::Filter { path, test } => {
                children(value).into_iter().filter(|child| test.holds(&walk(path, child))).collect()
            }
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

impl Test {
    fn holds(&self, found: &[&Value]) -> bool {
        match self {
            Self::Exists => !found.is_empty(),
            Self::Compare(comparison, right) => found.first().is_some_and(|left| comparison.holds(left, right)),
        }
    }
}

impl Comparison {
    fn holds(self, left: &Value, right: &Value) -> bool {
        let ordering = match (left, right) {
            (Value::Number(left), Value::Number(right)) => left.as_f64().partial_cmp(&right.as_f64()),
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            _ => None,
        };
        ordering.is_some_and(|ordering| match self {
            Self::Equal => ordering.is_eq(),
            Self::NotEqual => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        })
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON path {path:?}: {why}")]
pub struct JsonPathError {
    pub path: String,
    pub why: String,
}

impl FromStr for JsonPath {
    type Err = JsonPathError;

    fn from_str(text: &str) -> Result<Self, JsonPathError> {
        let path = text.strip_prefix('$').unwrap_or(text);
        let error = |why: String| JsonPathError { path: text.to_owned(), why };
        let steps = steps_of(path).map_err(error)?;
        Ok(Self { text: text.to_owned(), steps })
    }
}

fn steps_of(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match first {
            '.' => {
                let (name, after) = take_name(&rest[1..]);
                steps.push(match name.as_str() {
                    "" if after.starts_with('[') => {
                        rest = after;
                        continue;
                    }
                    "" => return Err("a name is missing after '.'".to_owned()),
                    "*" => Step::All,
                    _ => Step::Name(name),
                });
                rest = after;
            }
            '[' => {
                let (inside, after) = take_bracket(rest)?;
                steps.push(bracket_step(inside)?);
                rest = after;
            }
            other => return Err(format!("unexpected {other:?}")),
        }
    }
    Ok(steps)
}

/// A name ends at the next dot or bracket that is not escaped.
fn take_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

/// What stands between a bracket and its partner, quotes and nested brackets skipped.
fn take_bracket(text: &str) -> Result<(&str, &str), String> {
    let (mut depth, mut quote) = (0usize, None);
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            _ if escaped => escaped = false,
            (_, '\\') => escaped = true,
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') => {
                depth -= 1;
                if depth == 0 {
                    return Ok((text[1..at].trim(), &text[at + 1..]));
                }
            }
            _ => {}
        }
    }
    Err("a bracket is not closed".to_owned())
}

fn bracket_step(inside: &str) -> Result<Step, String> {
    if inside == "*" {
        return Ok(Step::All);
    }
    if let Some(name) = quoted(inside) {
        return Ok(Step::Name(name));
    }
    if let Some(filter) = inside.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        return filter_step(filter.trim());
    }
    inside.parse().map(Step::Index).map_err(|_| format!("[{inside}] is neither an index, a name nor a filter"))
}

fn quoted(text: &str) -> Option<String> {
    let inner = ['\'', '"'].iter().find_map(|q| text.strip_prefix(*q)?.strip_suffix(*q))?;
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        plain.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    Some(plain)
}

const COMPARISONS: &[(&str, Comparison)] = &[
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

fn filter_step(filter: &str) -> Result<Step, String> {
    let body = filter.strip_prefix('@').ok_or("a filter starts with '@'")?;
    // The leftmost operator; of two at one place, the longer.
    let operator = body.char_indices().find_map(|(at, _)| {
        COMPARISONS.iter().find(|(symbol, _)| body[at..].starts_with(symbol)).map(|(symbol, kind)| (at, *symbol, *kind))
    });
    let Some((at, symbol, comparison)) = operator else {
        return Ok(Step::Filter { path: steps_of(body.trim())?, test: Test::Exists });
    };
    let literal = body[at + symbol.len()..].trim();
    let value = match quoted(literal) {
        Some(text) => Value::String(text),
        None => serde_json::from_str(literal).map_err(|_| format!("{literal:?} is not a literal"))?,
    };
    Ok(Step::Filter { path: steps_of(body[..at].trim())?, test: Test::Compare(comparison, value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_find_what_they_name() {
        let object = json!({
            "metadata": {"annotations": {"a.b/c": "x"}},
            "spec": {"replicas": 3, "ports": [{"n": 1}, {"n": 2}, {"n": 3}]},
            "status": {"conditions": [
                {"type": "Ready", "status": "False"}, {"type": "Live", "status": "True", "why": "ok"}]},
        });
        let cases = [
            (".spec.replicas", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec.nothing.there", json!([])),
            (".metadata.annotations['a.b/c']", json!(["x"])),
            (r".metadata.annotations.a\.b/c", json!(["x"])),
            (".spec.ports[0].n", json!([1])),
            (".spec.ports[-1].n", json!([3])),
            (".spec.ports[9].n", json!([])),
            (".spec.ports[*].n", json!([1, 2, 3])),
            (".spec.ports[?(@.n>1)].n", json!([2, 3])),
            (".spec.ports[?(@.n <= 1)].n", json!([1])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["False"])),
            (".status.conditions[?(@.type!='Ready')].status", json!(["True"])),
            (".status.conditions[?(@.why)].type", json!(["Live"])),
        ];
        for (path, expected) in cases {
            let path: JsonPath = path.parse().unwrap();
            let found: Vec<Value> = path.find(&object).into_iter().cloned().collect();
            assert_eq!(json!(found), expected, "{path}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in ["spec", ".spec.", ".a[", ".a[x]", ".a[?(b)]", ".a[?(@.b==c)]"] {
            assert!(text.parse::<JsonPath>().is_err(), "{text}");
        }
    }
}
