//! Skips the managed fields of an object before it is decoded.
//!
//! Corresponds to the transformers of informers that drop managedFields in the original components. There, the decoder has
//! made them first; here, a third of a pod's bytes is passed over. It never becomes a tree, and nobody looks what is wrong with it.

use proto::serializer::json;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

const NULL: &[u8] = b"null";
const FIELD: &str = "managedFields";

static FINDER: LazyLock<memchr::memmem::Finder<'_>> =
    LazyLock::new(|| memchr::memmem::Finder::new("\"managedFields\""));

/// Returns the JSON of an object with null in place of `metadata.managedFields`. Returns JSON as it is that has none, or
/// that ends before their end.
pub(crate) fn without(object: &[u8]) -> Cow<'_, [u8]> {
    match FINDER.find(object).and_then(|_| place(object)) {
        Some(fields) => Cow::Owned([&object[..fields.start], NULL, &object[fields.end..]].concat()),
        None => Cow::Borrowed(object),
    }
}

/// Returns where the managed fields are.
fn place(object: &[u8]) -> Option<Range<usize>> {
    let metadata = json::member_start(object, 0, "metadata")?;
    let fields = json::member_start(object, metadata, FIELD)?;
    Some(fields..json::find_value_end(object, fields)?)
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
