//! Skips the managed fields of an object before it is decoded.
//!
//! Corresponds to the transformers of informers that drop managedFields in the original components. There, the decoder has
//! made them first; here, a third of a pod's bytes is skipped and never becomes a tree.

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Deserializer;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::sync::LazyLock;

const NULL: &[u8] = b"null";
const FIELD: &str = "managedFields";

static FINDER: LazyLock<memchr::memmem::Finder<'_>> =
    LazyLock::new(|| memchr::memmem::Finder::new("\"managedFields\""));

/// Returns the JSON of an object with null in place of `metadata.managedFields`. Returns JSON as it is that has none, or
/// that cannot be read.
pub(crate) fn without(json: &[u8]) -> Cow<'_, [u8]> {
    if FINDER.find(json).is_none() {
        return Cow::Borrowed(json);
    }
    let found = Cell::new(None);
    // The walk ends with an error when it has found them.
    let _ = Walk { path: &["metadata", FIELD], found: &found }.deserialize(&mut Deserializer::from_slice(json));
    let Some(fields) = found.get() else { return Cow::Borrowed(json) };
    let begin = fields.as_ptr().addr() - json.as_ptr().addr();
    Cow::Owned([&json[..begin], NULL, &json[begin + fields.len()..]].concat())
}

/// Walks down a path of keys, and takes the text of the value at its end.
struct Walk<'a, 'de> {
    path: &'a [&'a str],
    found: &'a Cell<Option<&'de str>>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.path.is_empty() {
            let value: &RawValue = serde::Deserialize::deserialize(deserializer)?;
            self.found.set(Some(value.get()));
            return Err(D::Error::custom("found"));
        }
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((wanted, path)) = self.path.split_first() else { return Ok(()) };
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            if key == *wanted {
                return map.next_value_seed(Walk { path, found: self.found });
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

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
        let left: Value = serde_json::from_str(&cut(&object.to_string())).unwrap();
        object["metadata"]["managedFields"] = Value::Null;
        assert_eq!(left, object);
    }
}
