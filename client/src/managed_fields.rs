//! Skips the managed fields of an object before it is decoded.
//!
//! Corresponds to the transformers of informers that drop managedFields in the original components. There, the decoder has
//! made them first; here, a third of a pod's bytes is passed over. It never becomes a tree, and nobody looks what is wrong with it.
//!
//! Managed fields are a list of objects without lists in them, so they end at the first `]` that is in no string. To find
//! it, quotes are counted many at a time, which takes less than half of the instructions of a walk over all names. Should
//! there be a list in them, what is cut off ends too early, and the rest has a bracket too many, so it is no JSON. Then the
//! whole object is decoded.

use proto::serializer::json;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

const NULL: &[u8] = b"null";
const FIELD: &str = "managedFields";

static FINDER: LazyLock<memchr::memmem::Finder<'_>> =
    LazyLock::new(|| memchr::memmem::Finder::new("\"managedFields\""));

/// Decodes the JSON of an object without its managed fields.
pub(crate) fn skip<T, E>(object: &[u8], decode: impl Fn(&[u8]) -> Result<T, E>) -> Result<T, E> {
    match without(object) {
        Cow::Owned(rest) => decode(&rest).or_else(|_| decode(object)),
        Cow::Borrowed(whole) => decode(whole),
    }
}

/// Returns the JSON of an object with null in place of `metadata.managedFields`. Returns JSON as it is that has none, or
/// that ends before their end.
fn without(object: &[u8]) -> Cow<'_, [u8]> {
    match FINDER.find(object).and_then(|_| place(object)) {
        Some(fields) => Cow::Owned([&object[..fields.start], NULL, &object[fields.end..]].concat()),
        None => Cow::Borrowed(object),
    }
}

/// Returns where the managed fields are.
fn place(object: &[u8]) -> Option<Range<usize>> {
    let metadata = json::member_start(object, 0, "metadata")?;
    let fields = json::member_start(object, metadata, FIELD)?;
    Some(fields..list_end(object, fields)?)
}

/// Returns the offset behind the first `]` that is in no string; `None` if the text ends before, or no list begins at `start`.
fn list_end(text: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut is_in_string) = (start, false);
    if text.get(at) != Some(&b'[') {
        return None;
    }
    loop {
        let part = &text[at..];
        let part = &part[..=memchr::memchr(b']', part)?];
        at += part.len();
        is_in_string ^= has_odd_quotes(part);
        if !is_in_string {
            return Some(at);
        }
    }
}

/// Returns true if a text enters a string and does not leave it, or the other way round. A quote behind a backslash does not count.
fn has_odd_quotes(text: &[u8]) -> bool {
    let quotes = memchr::memchr_iter(b'"', text).count();
    let (mut escaped, mut next) = (0, 0);
    for backslash in memchr::memchr_iter(b'\\', text) {
        if backslash >= next {
            escaped += usize::from(text.get(backslash + 1) == Some(&b'"'));
            next = backslash + 2;
        }
    }
    (quotes - escaped) % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn tree(json: &[u8]) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(json)
    }

    fn cut(json: &str) -> String {
        String::from_utf8(without(json.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn only_the_objects_own_managed_fields_are_cut() {
        let json = r#"{"kind":"Pod","metadata":{"name":"a", "managedFields" : [{"fieldsV1":{"f:spec":{}}}] ,"uid":"u"},"spec":{}}"#;
        assert_eq!(cut(json), r#"{"kind":"Pod","metadata":{"name":"a", "managedFields" : null ,"uid":"u"},"spec":{}}"#);
        for same in [
            r#"{"metadata":{"name":"a"}}"#,
            r#"{"metadata":{"labels":{"managedFields":"x"}},"data":{"metadata":{"managedFields":[1]}}}"#,
            r#"{"managedFields":[1],"metadata":{"annotations":{"a":"\"managedFields\":[1]"}}}"#,
            r#"{"metadata":["managedFields"]}"#,
            r#"{"metadata":{"managedFields":[1"#,
            r#""managedFields""#,
            "",
        ] {
            assert_eq!(cut(same), same);
        }
    }

    #[test]
    fn every_other_field_stays() {
        let mut object = json!({
            "metadata": {
                "annotations": {"managedFields": "[{\\\"}]", "é": "\"managedFields\""},
                "managedFields": [{"manager": "a\"]}", "fieldsV1": {"f:metadata": {"f:managedFields": {}}}}],
                "name": "a",
            },
            "template": {"metadata": {"managedFields": []}},
        });
        let left = skip(object.to_string().as_bytes(), tree).unwrap();
        object["metadata"]["managedFields"] = Value::Null;
        assert_eq!(left, object);
    }

    #[test]
    fn an_object_with_lists_in_its_managed_fields_is_decoded_whole() {
        for list in [json!([[1]]), json!([{"a": []}]), json!([{"a": [{"b": ["\""]}]}, {"c": "]"}])] {
            let object = json!({"metadata": {"managedFields": list, "name": "a"}, "spec": {"list": [1]}});
            assert_eq!(skip(object.to_string().as_bytes(), tree).unwrap(), object);
        }
        let none = json!({"metadata": {"managedFields": [], "name": "a"}, "spec": {"list": [{}]}}).to_string();
        assert_eq!(cut(&none), none.replacen("[]", "null", 1));
        assert!(skip(br#"{"metadata":{"managedFields":[1]},}"#, tree).is_err());
    }
}
