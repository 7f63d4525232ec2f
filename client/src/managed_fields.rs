//! Skips the managed fields of an object before it is decoded.
//!
//! Corresponds to the transformers of informers that drop managedFields in the original components. There, the decoder has
//! made them first; here, a third of a pod's bytes is passed over and never becomes a tree. serde_json passes over a value
//! too, but takes twice as many instructions, because it also checks it.

use std::borrow::Cow;
use std::sync::LazyLock;

const NULL: &[u8] = b"null";
const FIELD: &str = "managedFields";

static FINDER: LazyLock<memchr::memmem::Finder<'_>> =
    LazyLock::new(|| memchr::memmem::Finder::new("\"managedFields\""));

/// Returns the JSON of an object with null in place of `metadata.managedFields`. Returns JSON as it is that has none, or
/// that ends before them.
pub(crate) fn without(json: &[u8]) -> Cow<'_, [u8]> {
    if FINDER.find(json).is_none() {
        return Cow::Borrowed(json);
    }
    let mut cursor = Cursor { json, at: 0 };
    let found = cursor.enter("metadata").and_then(|()| cursor.enter(FIELD)).and_then(|()| {
        let begin = cursor.at;
        cursor.value().map(|()| begin)
    });
    match found {
        Some(begin) => Cow::Owned([&json[..begin], NULL, &json[cursor.at..]].concat()),
        None => Cow::Borrowed(json),
    }
}

/// A place in JSON whose values are passed over and not read: whoever decodes the rest finds what is wrong with it. Each
/// function returns `None` if the JSON does not go on as it says.
struct Cursor<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Goes to the value of a key of the object that begins here.
    fn enter(&mut self, key: &str) -> Option<()> {
        self.mark(b'{')?;
        loop {
            let found = self.string()?;
            self.mark(b':')?;
            if found == key.as_bytes() {
                return self.blank();
            }
            self.value()?;
            self.mark(b',')?;
        }
    }

    /// Passes a value.
    fn value(&mut self) -> Option<()> {
        self.blank()?;
        let mut depth = 0_usize;
        loop {
            match self.json.get(self.at)? {
                b'"' => drop(self.string()?),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                // Numbers and constants, and what stands between values.
                _ => {
                    let is_mark = |byte: &u8| matches!(byte, b'"' | b'{' | b'[' | b'}' | b']' | b',');
                    self.at += self.json[self.at + 1..].iter().position(is_mark)? + 1;
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Passes a string. Returns what stands between its quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.mark(b'"')?;
        let begin = self.at;
        loop {
            self.at += memchr::memchr2(b'"', b'\\', self.json.get(self.at..)?)?;
            if self.json[self.at] == b'"' {
                break;
            }
            self.at += 2;
        }
        self.at += 1;
        Some(&self.json[begin..self.at - 1])
    }

    /// Passes a byte, and the blank before it.
    fn mark(&mut self, byte: u8) -> Option<()> {
        self.blank()?;
        (self.json[self.at] == byte).then(|| self.at += 1)
    }

    /// Passes blank. There is something after it.
    fn blank(&mut self) -> Option<()> {
        self.at += self.json.get(self.at..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
        Some(())
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
