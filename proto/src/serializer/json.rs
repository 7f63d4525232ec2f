//! JSON as the API needs it: writes canonical text, and finds duplicate keys while it reads.
//!
//! Corresponds to sigs.k8s.io/json and k8s.io/apimachinery/pkg/runtime/serializer/json.

use super::path::Segment;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};
use std::cell::RefCell;
use std::fmt;

/// Writes canonical JSON: sorted keys and no white space, whatever features serde_json was built with.
pub fn to_canonical(value: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(512);
    write_canonical(&mut out, value);
    out
}

fn write_canonical(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Object(map) => {
            out.push(b'{');
            if map.keys().is_sorted() {
                write_members(out, map.iter());
            } else {
                let mut members: Vec<(&String, &Value)> = map.iter().collect();
                members.sort_unstable_by_key(|(key, _)| *key);
                write_members(out, members.into_iter());
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_canonical(out, item);
            }
            out.push(b']');
        }
        scalar => write_scalar(out, scalar),
    }
}

fn write_members<'a>(out: &mut Vec<u8>, members: impl Iterator<Item = (&'a String, &'a Value)>) {
    for (i, (key, member)) in members.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_scalar(out, key);
        out.push(b':');
        write_canonical(out, member);
    }
}

fn write_scalar<T: serde::Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(out, value).expect("writing a scalar to memory cannot fail");
}

/// Returns the name that Go's errors give to the kind of a JSON value.
pub fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The place of a member among the sorted members of an object.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InsertPoint {
    pub at: usize,
    pub comma_before: bool,
    pub comma_after: bool,
}

/// Reads JSON. Its encoding is checked once, and not again for each of its strings.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_str(std::str::from_utf8(bytes).map_err(de::Error::custom)?)
}

/// Returns the offset of the value of member `key`, which the text spells like this. The object starts at `start`, and may have
/// white space. `None` if it has no such member, or the text ends before it.
pub fn member_start(bytes: &[u8], start: usize, key: &str) -> Option<usize> {
    let mut at = behind(bytes, start, b'{')?;
    loop {
        let name = behind(bytes, at, b'"')?;
        let name_end = find_string_end(bytes, name - 1)?;
        let value = skip_space(bytes, behind(bytes, name_end, b':')?)?;
        if bytes[name..name_end - 1] == *key.as_bytes() {
            return Some(value);
        }
        at = behind(bytes, find_value_end(bytes, value)?, b',')?;
    }
}

/// Returns the offset behind a mark, and behind the white space before it; `None` if something else stands there.
fn behind(bytes: &[u8], at: usize, mark: u8) -> Option<usize> {
    let at = skip_space(bytes, at)?;
    (bytes[at] == mark).then_some(at + 1)
}

/// Returns the offset of the next byte that is no white space.
fn skip_space(bytes: &[u8], at: usize) -> Option<usize> {
    bytes.get(at..)?.iter().position(|byte| !byte.is_ascii_whitespace()).map(|blank| at + blank)
}

/// Returns the range of member `key`, with the comma that follows it. Looks no further than the place of `key` among
/// sorted keys, so the text may be cut off behind that place.
pub fn member_with_comma(bytes: &[u8], start: usize, key: &str) -> Option<std::ops::Range<usize>> {
    let mut found = None;
    walk_members(bytes, start, |name, key_at, value| {
        if name == key.as_bytes() {
            found = Some((key_at, value));
        }
        name < key.as_bytes()
    });
    let (key_at, value) = found?;
    let end = value_end(bytes, value);
    Some(key_at..end + usize::from(bytes.get(end) == Some(&b',')))
}

/// Returns the place at which member `key` keeps the keys of the object sorted. The object starts at `start`.
pub fn insert_point(bytes: &[u8], start: usize, key: &str) -> InsertPoint {
    let mut first = true;
    let mut place = None;
    let end = walk_members(bytes, start, |name, key_at, _| {
        if name > key.as_bytes() {
            place = Some(InsertPoint { at: key_at, comma_before: false, comma_after: true });
            return false;
        }
        first = false;
        true
    });
    place.unwrap_or(InsertPoint { at: end, comma_before: !first, comma_after: false })
}

/// Calls `visit(key, key offset, value offset)` for each member until it returns `false`.
/// Returns the offset of that member, or of the closing brace.
fn walk_members(bytes: &[u8], start: usize, mut visit: impl FnMut(&[u8], usize, usize) -> bool) -> usize {
    debug_assert_eq!(bytes[start], b'{');
    let mut at = start + 1;
    while bytes[at] != b'}' {
        let key_end = string_end(bytes, at);
        let value = key_end + 1;
        if !visit(&bytes[at + 1..key_end - 1], at, value) {
            return at;
        }
        at = value_end(bytes, value);
        if bytes[at] == b',' {
            at += 1;
        }
    }
    at
}

/// Returns the offset behind the string that begins at `quote`. The text must be JSON.
pub fn string_end(bytes: &[u8], quote: usize) -> usize {
    find_string_end(bytes, quote).expect("JSON closes its strings")
}

/// Returns the offset behind the value that begins at `start`. The text must be JSON.
pub fn value_end(bytes: &[u8], start: usize) -> usize {
    find_value_end(bytes, start).expect("JSON closes its values")
}

/// Returns the offset behind the string that begins at `quote`; `None` if the text ends before.
fn find_string_end(bytes: &[u8], quote: usize) -> Option<usize> {
    let mut at = quote + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Returns the offset behind the value that begins at `start`; `None` if the text ends before. Does not look for anything else that is
/// wrong with the value.
fn find_value_end(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, start);
    loop {
        match bytes.get(at)? {
            b'"' => at = find_string_end(bytes, at)?,
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' => (depth, at) = (depth.checked_sub(1)?, at + 1),
            _ if depth > 0 => at += 1,
            _ => {
                let rest = &bytes[at..];
                at += rest.iter().position(|b| matches!(b, b',' | b'}' | b']')).unwrap_or(rest.len());
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// A parsed tree, and the paths of its duplicate keys.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    pub value: Value,
    /// `spec.replicas`, in order of appearance. The last value of a duplicate key wins, but objects are merged, because
    /// Go decodes the second one into the same struct.
    pub duplicates: Vec<String>,
}

/// Parses one JSON document. The error carries line and column.
pub fn parse(bytes: &[u8]) -> Result<Parsed, serde_json::Error> {
    let duplicates = RefCell::default();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Tree { duplicates: &duplicates, path: None }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Parsed { value, duplicates: duplicates.into_inner() })
}

/// The path to the value being read, kept on the stack. It becomes text only for a duplicate.
struct Path<'a> {
    above: Option<&'a Path<'a>>,
    last: Segment<'a>,
}

impl Path<'_> {
    fn write(&self, text: &mut String) {
        if let Some(above) = self.above {
            above.write(text);
        }
        self.last.push_to(text);
    }
}

#[derive(Clone, Copy)]
struct Tree<'a> {
    duplicates: &'a RefCell<Vec<String>>,
    path: Option<&'a Path<'a>>,
}

impl<'a> Tree<'a> {
    fn below(self, path: &'a Path<'a>) -> Self {
        Self { path: Some(path), ..self }
    }

    fn note_duplicate(&self, key: &str) {
        let mut path = String::new();
        Path { above: self.path, last: Segment::Key(key) }.write(&mut path);
        self.duplicates.borrow_mut().push(path);
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(Value::Bool(v))
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(Value::Number(v.into()))
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(Number::from_f64(v).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(Value::String(v.to_owned()))
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(Value::String(v))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: de::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = Path { above: self.path, last: Segment::Index(items.len()) };
            match seq.next_element_seed(self.below(&path))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            match map.entry(key) {
                Entry::Vacant(entry) => {
                    let path = Path { above: self.path, last: Segment::Key(entry.key()) };
                    let value = entries.next_value_seed(self.below(&path))?;
                    entry.insert(value);
                }
                Entry::Occupied(mut entry) => {
                    self.note_duplicate(entry.key());
                    let path = Path { above: self.path, last: Segment::Key(entry.key()) };
                    let value = entries.next_value_seed(self.below(&path))?;
                    join(entry.get_mut(), value);
                }
            }
        }
        Ok(Value::Object(map))
    }
}

/// Merges the value of a duplicate key into the earlier value.
fn join(earlier: &mut Value, later: Value) {
    match (earlier, later) {
        (Value::Object(earlier), Value::Object(later)) => {
            for (key, value) in later {
                match earlier.get_mut(&key) {
                    Some(inner) => join(inner, value),
                    None => drop(earlier.insert(key, value)),
                }
            }
        }
        (earlier, later) => *earlier = later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicate_keys_are_reported_with_their_path() {
        let parsed = parse(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(parsed.duplicates, ["b[0].c", "a"]);
        assert_eq!(parsed.value, serde_json::json!({"a":3,"b":[{"c":2}]}));
        let parsed = parse(br#"{"data":{"k":"1"},"data":{"z":"2"}}"#).unwrap();
        assert_eq!(parsed.value, serde_json::json!({"data":{"k":"1","z":"2"}}));
    }

    #[test]
    fn members_are_found_in_any_text_until_it_ends() {
        let text = br#" { "a\"" : [1, {"b": "}]\\"}], "b" : {"c":-1.5e3 } , "d":true}"#;
        let value = |key: &str| {
            let start = member_start(text, 0, key)?;
            Some(std::str::from_utf8(&text[start..find_value_end(text, start)?]).unwrap())
        };
        assert_eq!(value(r#"a\""#), Some(r#"[1, {"b": "}]\\"}]"#));
        assert_eq!([value("b"), value("d"), value("c")], [Some(r#"{"c":-1.5e3 }"#), Some("true"), None]);
        let start = member_start(text, 0, "b").unwrap();
        assert_eq!(member_start(text, start, "c"), Some(text.len() - r#"-1.5e3 } , "d":true}"#.len()));
        for end in 0..text.len() - "true}".len() {
            assert_eq!(member_start(&text[..end], 0, "d"), None, "{end}");
        }
        for wrong in [&b"[1]"[..], b"{1:2}", b"{\"a\" 1}", b"{\"a\":]}", b"{\"\\"] {
            assert_eq!(member_start(wrong, 0, "z"), None);
        }
    }

    #[test]
    fn text_of_another_encoding_is_refused() {
        assert_eq!(read::<String>("\"é\"".as_bytes()).unwrap(), "é");
        let error = read::<String>(b"\"\xe9\"").unwrap_err().to_string();
        assert_eq!(error, "invalid utf-8 sequence of 1 bytes from index 1");
    }

    #[test]
    fn canonical_output_is_sorted_and_dense() {
        let value = serde_json::json!({"b":[1,{"z":null,"y":true}],"a":"\u{1}x"});
        assert_eq!(String::from_utf8(to_canonical(&value)).unwrap(), r#"{"a":"\u0001x","b":[1,{"y":true,"z":null}]}"#);
    }
}
