//! JSONPath, for the paths in definitions: `.spec.replicas`, `.status.conditions[?(@.type=="Ready")].status`.
//!
//! Corresponds to k8s.io/client-go/util/jsonpath as apiextensions-apiserver uses it: one expression, no templates.

use serde_json::Value;

/// A parsed path. It may find any number of values.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq)]
enum PathStep {
    Field(String),
    /// Every member of an object, every item of a list.
    All,
    /// Counted from the end if negative.
    Index(i64),
    /// `[from:to:by]`
    Slice(Option<i64>, Option<i64>, i64),
    /// Every value at any depth below.
    Below,
    /// Items that have a value at a path, and whose value compares with a literal if there is one.
    Filter(Vec<PathStep>, Option<(Comparison, Value)>),
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

/// Limit on the length of a path.
const MAX_BYTES: usize = 4096;

impl JsonPath {
    /// Parses a path from the root: `.a.b`. Returns `None` for an invalid one.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
        if text.len() > MAX_BYTES {
            return None;
        }
        let mut reader = Reader { rest: text.strip_prefix('$').unwrap_or(text) };
        let steps = reader.steps()?;
        reader.rest.is_empty().then_some(Self(steps))
    }

    /// Returns all values at the path.
    pub fn find<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        follow(&self.0, value)
    }

    /// Returns the names of a path that consists of names alone: `["spec", "replicas"]`.
    pub fn names(&self) -> Option<Vec<&str>> {
        self.0
            .iter()
            .map(|step| match step {
                PathStep::Field(name) => Some(name.as_str()),
                _ => None,
            })
            .collect()
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl<'t> Reader<'t> {
    fn take(&mut self, prefix: &str) -> bool {
        match self.rest.strip_prefix(prefix) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn steps(&mut self) -> Option<Vec<PathStep>> {
        let mut steps = Vec::new();
        loop {
            if self.take("..") {
                steps.push(PathStep::Below);
                if !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take(".") {
                if !self.rest.is_empty() && !self.rest.starts_with('[') {
                    steps.push(self.name()?);
                }
            } else if self.take("[") {
                steps.push(self.bracket()?);
            } else {
                return Some(steps);
            }
        }
    }

    fn name(&mut self) -> Option<PathStep> {
        if self.take("*") {
            return Some(PathStep::All);
        }
        let mut name = String::new();
        let mut chars = self.rest.char_indices();
        let end = loop {
            match chars.next() {
                Some((_, '\\')) => name.push(chars.next()?.1),
                Some((at, '.' | '[' | ']' | '(' | ')' | '=' | '!' | '<' | '>' | ' ' | '{' | '}')) => break at,
                Some((_, c)) => name.push(c),
                None => break self.rest.len(),
            }
        };
        self.rest = &self.rest[end..];
        (!name.is_empty()).then_some(PathStep::Field(name))
    }

    /// Parses the rest behind an opening bracket.
    fn bracket(&mut self) -> Option<PathStep> {
        if self.take("?(") {
            return self.filter();
        }
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'));
        if let Some(quote) = quote {
            let Value::String(name) = self.quoted(quote)? else { return None };
            return self.take("]").then_some(PathStep::Field(name));
        }
        let (inside, rest) = self.rest.split_once(']')?;
        self.rest = rest;
        if inside == "*" {
            return Some(PathStep::All);
        }
        if !inside.contains(':') {
            return inside.trim().parse().ok().map(PathStep::Index);
        }
        let bounds: Vec<Option<i64>> = inside
            .split(':')
            .map(|bound| match bound.trim() {
                "" => Some(None),
                bound => bound.parse().ok().map(Some),
            })
            .collect::<Option<_>>()?;
        match bounds.as_slice() {
            [from, to] => Some(PathStep::Slice(*from, *to, 1)),
            [from, to, by] => Some(PathStep::Slice(*from, *to, by.unwrap_or(1))).filter(|_| by.is_none_or(|by| by > 0)),
            _ => None,
        }
    }

    /// Parses the rest behind `?(`: `@.type=="Ready")]`.
    fn filter(&mut self) -> Option<PathStep> {
        self.blanks();
        if !self.take("@") {
            return None;
        }
        let path = self.steps()?;
        self.blanks();
        let comparison = [
            ("==", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<=", Comparison::LessOrEqual),
            (">=", Comparison::GreaterOrEqual),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
        ]
        .into_iter()
        .find(|(sign, _)| self.take(sign))
        .map(|(_, comparison)| comparison);
        let compared = match comparison {
            None => None,
            Some(comparison) => {
                self.blanks();
                Some((comparison, self.literal()?))
            }
        };
        self.blanks();
        self.take(")]").then_some(PathStep::Filter(path, compared))
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn literal(&mut self) -> Option<Value> {
        if let Some(quote) = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"')) {
            return self.quoted(quote);
        }
        let end = self.rest.find([')', ' '])?;
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str(text).ok()
    }

    fn quoted(&mut self, quote: char) -> Option<Value> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        loop {
            match chars.next()? {
                (_, '\\') => text.push(chars.next()?.1),
                (at, c) if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(Value::String(text));
                }
                (_, c) => text.push(c),
            }
        }
    }
}

fn follow<'v>(steps: &[PathStep], value: &'v Value) -> Vec<&'v Value> {
    let mut found = vec![value];
    for step in steps {
        found = found.into_iter().flat_map(|value| step.apply(value)).collect();
    }
    found
}

impl PathStep {
    fn apply<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::All => children(value),
            Self::Below => {
                let mut all = vec![value];
                all.extend(children(value).into_iter().flat_map(|child| Self::Below.apply(child)));
                all
            }
            Self::Index(index) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                position(*index, items.len()).and_then(|at| items.get(at)).into_iter().collect()
            }
            Self::Slice(from, to, by) => {
                let Some(items) = value.as_array() else { return Vec::new() };
                let bound = |at: i64| position(at, items.len()).unwrap_or(0).min(items.len());
                let (from, to) = (from.map_or(0, bound), to.map_or(items.len(), bound));
                let by = usize::try_from(*by).unwrap_or(1);
                items.get(from..to).unwrap_or_default().iter().step_by(by).collect()
            }
            Self::Filter(path, compared) => children(value)
                .into_iter()
                .filter(|item| {
                    let found = follow(path, item);
                    match compared {
                        None => !found.is_empty(),
                        Some((comparison, literal)) => found.iter().any(|value| comparison.holds(value, literal)),
                    }
                })
                .collect(),
        }
    }
}

impl Comparison {
    fn holds(self, value: &Value, literal: &Value) -> bool {
        let order = match (value, literal) {
            (Value::Number(a), Value::Number(b)) => a.as_f64().partial_cmp(&b.as_f64()),
            (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
            _ => (value == literal).then_some(std::cmp::Ordering::Equal),
        };
        match self {
            Self::Equal => order.is_some_and(|order| order.is_eq()),
            Self::NotEqual => !order.is_some_and(|order| order.is_eq()),
            Self::Less => order.is_some_and(|order| order.is_lt()),
            Self::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Self::Greater => order.is_some_and(|order| order.is_gt()),
            Self::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        }
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    }
}

/// Returns the position of an index, which counts from the end if it is negative.
fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { index + length } else { index }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": {"n": 1, "l": ["p", "q", "r"], "a.b": 2},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "status": "False", "n": 3}]},
        });
        for (path, found) in [
            (".spec.n", json!([1])),
            ("{.spec.n}", json!([1])),
            ("$.spec.n", json!([1])),
            (".spec.l[0]", json!(["p"])),
            (".spec.l[-1]", json!(["r"])),
            (".spec.l[0:2]", json!(["p", "q"])),
            (".spec.l[*]", json!(["p", "q", "r"])),
            (r".spec.a\.b", json!([2])),
            (".spec['a.b']", json!([2])),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"])),
            (r#".status.conditions[?(@.type == 'Old')].status"#, json!(["False"])),
            (".status.conditions[?(@.n)].type", json!(["Old"])),
            (".status.conditions[?(@.n>2)].type", json!(["Old"])),
            ("..status", json!([{"conditions": object["status"]["conditions"]}, "True", "False"])),
            (".none.x", json!([])),
        ] {
            let parsed = JsonPath::parse(path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(json!(parsed.find(&object)), found, "{path}");
        }
        for bad in ["spec", ".spec[", ".spec[x]", ".a[?(x)]", ".spec.l[0:2:0]", ".a(b"] {
            assert_eq!(JsonPath::parse(bad), None, "{bad}");
        }
        assert_eq!(JsonPath::parse(".spec.n").unwrap().names(), Some(vec!["spec", "n"]));
        assert_eq!(JsonPath::parse(".spec[0]").unwrap().names(), None);
    }
}
