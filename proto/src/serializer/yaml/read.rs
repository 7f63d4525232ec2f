//! Reads the first document of a YAML stream as a tree, with anchors, aliases and merge keys resolved.
//!
//! Corresponds to `yaml.YAMLToJSON` and `yaml.YAMLToJSONStrict`.

use super::json_subset;
use super::scalar::{self, Unfit};
use crate::serializer::depth::MAX_DEPTH;
use crate::serializer::json::Parsed;
use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};
use std::collections::BTreeMap;

/// Limit on the values that aliases add to a document, so that a small body cannot become a huge tree.
const MAX_ALIASED_VALUES: usize = 100_000;

/// Parses the first document. An empty one is null. All duplicate keys become one message, in go-yaml's words.
pub fn parse(bytes: &[u8]) -> Result<Parsed, String> {
    match json_subset::parse(bytes) {
        Some(parsed) => Ok(parsed),
        None => parse_yaml(bytes),
    }
}

pub(super) fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "yaml: invalid leading UTF-8 octet".to_owned())?;
    let mut reader =
        Reader { events: Parser::new_from_str(text), anchors: BTreeMap::new(), aliased: 0, duplicates: Vec::new() };
    let value = reader.document()?;
    let duplicates = match reader.duplicates.as_slice() {
        [] => Vec::new(),
        lines => vec![format!("yaml: unmarshal errors:\n  {}", lines.join("\n  "))],
    };
    Ok(Parsed { value, duplicates })
}

struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: BTreeMap<usize, Value>,
    aliased: usize,
    /// `line 5: key "name" already set in map`
    duplicates: Vec<String>,
}

impl<'a> Reader<'a> {
    fn document(&mut self) -> Result<Value, String> {
        loop {
            match self.next()?.0 {
                Event::StreamEnd => return Ok(Value::Null),
                Event::StreamStart | Event::DocumentStart(..) => {}
                Event::DocumentEnd => return Ok(Value::Null),
                first => return self.value(first, 0),
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), String> {
        loop {
            let event = self.events.next_event().unwrap_or(Ok((Event::StreamEnd, Span::default())));
            match event.map_err(|error| worded(&error))? {
                (Event::Comment(..), _) => {}
                event => return Ok(event),
            }
        }
    }

    fn value(&mut self, event: Event<'a>, depth: usize) -> Result<Value, String> {
        if depth > MAX_DEPTH {
            return Err("yaml: exceeded max depth".to_owned());
        }
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = scalar_value(&text, style, tag.as_deref())?;
                self.anchor(anchor, &value);
                Ok(value)
            }
            Event::SequenceStart(_, anchor, _) => {
                let value = self.sequence(depth)?;
                self.anchor(anchor, &value);
                Ok(value)
            }
            Event::MappingStart(_, anchor, _) => {
                let value = self.mapping(depth)?;
                self.anchor(anchor, &value);
                Ok(value)
            }
            Event::Alias(anchor) => {
                let value = self.anchors.get(&anchor).cloned().ok_or("yaml: anchor contains itself")?;
                self.aliased += count(&value);
                if self.aliased > MAX_ALIASED_VALUES {
                    return Err("yaml: document contains excessive aliasing".to_owned());
                }
                Ok(value)
            }
            _ => Err("yaml: did not find expected node content".to_owned()),
        }
    }

    fn anchor(&mut self, anchor: usize, value: &Value) {
        if anchor != 0 {
            self.anchors.insert(anchor, value.clone());
        }
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, String> {
        let mut items = Vec::new();
        loop {
            match self.next()?.0 {
                Event::SequenceEnd => return Ok(Value::Array(items)),
                event => items.push(self.value(event, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, String> {
        let mut members = Map::new();
        loop {
            let (event, span) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Value::Object(members));
            }
            let merges = is_merge_key(&event);
            let key = key_text(self.value(event, depth + 1)?)?;
            let next = self.next()?.0;
            let value = self.value(next, depth + 1)?;
            if merges {
                merge(&mut members, value)?;
            } else if members.insert(key.clone(), value).is_some() {
                self.duplicates.push(format!("line {}: key {key:?} already set in map", span.start.line()));
            }
        }
    }
}

fn is_merge_key(event: &Event<'_>) -> bool {
    matches!(event, Event::Scalar(text, ScalarStyle::Plain, _, _) if text == "<<")
}

/// Adds the members that a merge key names to the mapping: `<<: *base` or `<<: [*a, *b]`.
fn merge(members: &mut Map<String, Value>, value: Value) -> Result<(), String> {
    match value {
        Value::Object(more) => members.extend(more),
        Value::Array(items) => {
            // The first mapping of the list wins.
            for item in items.into_iter().rev() {
                let Value::Object(more) = item else { return Err(MERGE_NEEDS_MAP.to_owned()) };
                members.extend(more);
            }
        }
        _ => return Err(MERGE_NEEDS_MAP.to_owned()),
    }
    Ok(())
}

const MERGE_NEEDS_MAP: &str = "yaml: map merge requires map or sequence of maps as the value";

/// Returns a key as the string that JSON needs: numbers and booleans are spelt out.
fn key_text(key: Value) -> Result<String, String> {
    match key {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null => Err("unsupported map key of type: nil".to_owned()),
        Value::Array(_) | Value::Object(_) => Err("yaml: invalid map key".to_owned()),
    }
}

fn scalar_value(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Value, String> {
    let core = tag.filter(|tag| tag.handle().starts_with("tag:yaml.org,2002:")).map(Tag::suffix);
    match (core, style) {
        (Some("str"), _) => return Ok(Value::from(text)),
        (Some("binary"), _) => return Ok(Value::from(text.split_whitespace().collect::<String>())),
        (Some("int" | "float" | "bool" | "null"), _) | (None, ScalarStyle::Plain) => {}
        _ => return Ok(Value::from(text)),
    }
    scalar::resolve(text).map_err(|Unfit::NotFinite(number)| format!("json: unsupported value: {number}"))
}

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// Words a syntax error as libyaml does. It does not name the first line.
fn worded(error: &ScanError) -> String {
    let problem = match error.kind() {
        ErrorKind::TabNotAllowed
        | ErrorKind::TabInBlockIndentation
        | ErrorKind::TabInIndentation
        | ErrorKind::TabInPlainScalar => "found a tab character that violates indentation".to_owned(),
        ErrorKind::MappingValueNotAllowed | ErrorKind::InvalidColonPlacement => {
            "mapping values are not allowed in this context".to_owned()
        }
        ErrorKind::SimpleKeyExpected | ErrorKind::InvalidSimpleKey => "could not find expected ':'".to_owned(),
        ErrorKind::ExpectedBlockMappingKey | ErrorKind::InvalidIndentation => "did not find expected key".to_owned(),
        ErrorKind::ExpectedNodeContent => "did not find expected node content".to_owned(),
        ErrorKind::ExpectedBlockSequenceEntry => "did not find expected '-' indicator".to_owned(),
        ErrorKind::ExpectedFlowMappingSeparator | ErrorKind::UnexpectedEofFlowMapping => {
            "did not find expected ',' or '}'".to_owned()
        }
        ErrorKind::ExpectedFlowSequenceSeparator | ErrorKind::UnexpectedEofFlowSequence => {
            "did not find expected ',' or ']'".to_owned()
        }
        ErrorKind::UnclosedFlowCollection { open } => {
            format!("did not find expected ',' or '{}'", if *open == '{' { '}' } else { ']' })
        }
        ErrorKind::UnclosedQuotedScalar | ErrorKind::UnexpectedEof => "found unexpected end of stream".to_owned(),
        ErrorKind::UnknownQuotedScalarEscape => "found unknown escape character".to_owned(),
        ErrorKind::UnexpectedCharacter { .. } => "found character that cannot start any token".to_owned(),
        ErrorKind::UnknownAnchor => "unknown anchor referenced".to_owned(),
        other => other.to_string(),
    };
    // libyaml reports a tab below a plain scalar with the line of the tab.
    let below = usize::from(*error.kind() == ErrorKind::TabInPlainScalar);
    match error.marker().line() + below {
        0 | 1 => format!("yaml: {problem}"),
        line => format!("yaml: line {line}: {problem}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(text: &str) -> Result<Value, String> {
        parse(text.as_bytes()).map(|parsed| parsed.value)
    }

    #[test]
    fn documents_become_trees() {
        let cases = [
            ("", json!(null)),
            ("# nothing\n", json!(null)),
            ("a: 1\nb: [x, 'y', \"z\"]\n", json!({"a": 1, "b": ["x", "y", "z"]})),
            ("data: {on: \"x\", \"yes\": y, 1: no}\n", json!({"data": {"true": "x", "yes": true, "1": false}})),
            ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", json!({"a": "x\ny\n", "b": "x y"})),
            (
                "a: &m {x: 1}\nb: *m\nc:\n  <<: *m\n  z: 2\n",
                json!({"a": {"x": 1}, "b": {"x": 1}, "c": {"x": 1, "z": 2}}),
            ),
            ("---\na: 1\n---\na: 2\n", json!({"a": 1})),
            ("a: !!str 1\nb: !!int \"2\"\n", json!({"a": "1", "b": 2})),
            ("a:\nb: ~\n", json!({"a": null, "b": null})),
            ("{\"a\": \"b\"}", json!({"a": "b"})),
        ];
        for (text, value) in cases {
            assert_eq!(read(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn duplicate_keys_name_their_line() {
        let parsed = parse(b"a: 1\nmetadata:\n  name: x\n  name: z\na: 2\n").unwrap();
        assert_eq!(parsed.value, json!({"a": 2, "metadata": {"name": "z"}}));
        let lines = "line 4: key \"name\" already set in map\n  line 5: key \"a\" already set in map";
        assert_eq!(parsed.duplicates, [format!("yaml: unmarshal errors:\n  {lines}")]);
    }

    #[test]
    fn errors_are_worded_as_libyaml_words_them() {
        let cases = [
            ("apiVersion: v1\n\tkind: x\n", "yaml: line 2: found a tab character that violates indentation"),
            ("a: b: c\n", "yaml: mapping values are not allowed in this context"),
            ("a: *x\n", "yaml: unknown anchor referenced"),
            ("a: .nan\n", "json: unsupported value: NaN"),
        ];
        for (text, message) in cases {
            assert_eq!(read(text), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn aliases_cannot_grow_without_limit() {
        let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..9 {
            let below = format!("*a{}", level - 1);
            text += &format!("a{level}: &a{level} [{}]\n", [below.as_str(); 10].join(", "));
        }
        assert_eq!(read(&text), Err("yaml: document contains excessive aliasing".to_owned()));
    }
}
