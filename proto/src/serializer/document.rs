//! `Document`: a request body that has been read, whatever its media type, with the facts that strict decoding needs.
//!
//! Corresponds to k8s.io/apimachinery/pkg/runtime/serializer/json: `recognizer`, `yaml.ToJSON` and the
//! interpretation of `apiVersion` and `kind`.

use super::depth::MAX_DEPTH;
use super::{json, json_syntax, protobuf, yaml};
use serde_json::Value;
use std::borrow::Cow;

pub use super::depth::TOO_DEEP;

/// The depth at which the tree of a JSON body is cut. The parser of trees takes no more.
const CUT_DEPTH: usize = MAX_DEPTH - 1;

/// Number of bytes of a body that an error repeats.
const SUMMARY_BYTES: usize = 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// A body as a tree, with its bytes: errors name fields in the order and numbers in the spelling of the body.
#[derive(Debug)]
pub struct Document<'a> {
    /// For protobuf, `apiVersion` and `kind` alone. The rest needs the type, which `decode_document` knows.
    pub value: Value,
    /// Paths of duplicate keys (JSON), or the message of Go's YAML parser about them.
    pub duplicates: Vec<String>,
    /// Paths of values that nest too deep. They are null in `value`, and must not be kept.
    pub cut: Vec<String>,
    pub format: Format,
    pub source: Cow<'a, [u8]>,
}

impl<'a> Document<'a> {
    /// Reads a body. The error is worded as Kubernetes words it, without a preamble.
    pub fn parse(format: Format, bytes: &'a [u8]) -> Result<Self, String> {
        match format {
            Format::Json => Self::parse_json(bytes),
            Format::Yaml => Self::parse_yaml(bytes),
            Format::Protobuf => Self::open_protobuf(bytes),
        }
    }

    fn parse_json(bytes: &'a [u8]) -> Result<Self, String> {
        if let Ok(parsed) = json::parse(bytes) {
            return Ok(Self::of_json(parsed, Vec::new(), Cow::Borrowed(bytes)));
        }
        if let Some(message) = json_syntax::syntax_error(bytes) {
            return Err(json_error(message));
        }
        // Go accepts this text, and replaces its lone surrogates and broken UTF-8.
        let repaired = json_syntax::repair(bytes);
        let (flat, cut) =
            json_syntax::cut_below(&repaired, CUT_DEPTH).ok_or_else(|| json_error(TOO_DEEP.to_owned()))?;
        match json::parse(&flat) {
            Ok(parsed) => Ok(Self::of_json(parsed, cut, Cow::Owned(flat))),
            Err(error) => Err(json_error(error.to_string())),
        }
    }

    fn of_json(parsed: json::Parsed, cut: Vec<String>, source: Cow<'a, [u8]>) -> Self {
        Self { value: parsed.value, duplicates: parsed.duplicates, cut, format: Format::Json, source }
    }

    fn parse_yaml(bytes: &'a [u8]) -> Result<Self, String> {
        let parsed = yaml::parse(bytes)?;
        Ok(Self {
            value: parsed.value,
            duplicates: parsed.duplicates,
            cut: Vec::new(),
            format: Format::Yaml,
            source: Cow::Borrowed(bytes),
        })
    }

    fn open_protobuf(bytes: &[u8]) -> Result<Self, String> {
        let envelope = protobuf::open(bytes)?;
        let value = serde_json::json!({"apiVersion": envelope.api_version, "kind": envelope.kind});
        let source = Cow::Owned(envelope.raw);
        Ok(Self { value, duplicates: Vec::new(), cut: Vec::new(), format: Format::Protobuf, source })
    }

    /// Returns `apiVersion` and `kind`, empty if absent. An empty body and `null` have neither.
    pub fn type_meta(&self) -> Result<(&str, &str), String> {
        let Value::Object(members) = &self.value else {
            return match &self.value {
                Value::Null => Ok(("", "")),
                other => Err(json_error(format!(
                    "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                     \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                    json::go_kind(other)
                ))),
            };
        };
        let text = |key: &str| match members.get(key) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(other) => Err(json_error(format!(
                "json: cannot unmarshal {} into Go struct field .{key} of type string",
                json::go_kind(other)
            ))),
        };
        Ok((text("apiVersion")?, text("kind")?))
    }
}

fn json_error(message: String) -> String {
    format!("couldn't get version/kind; json parse error: {message}")
}

/// Returns the beginning of a body as errors show it: text if it looks like JSON, else hexadecimal.
pub fn summary(bytes: &[u8]) -> String {
    let (head, more) = match bytes.get(..SUMMARY_BYTES) {
        Some(head) if bytes.len() > SUMMARY_BYTES => (head, " ..."),
        _ => (bytes, ""),
    };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(head)),
        Some(_) => head.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + more,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_version_must_be_strings_in_an_object() {
        let struct_type =
            r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let cases = [
            ("[]", format!("json: cannot unmarshal array into Go value of type {struct_type}")),
            ("17", format!("json: cannot unmarshal number into Go value of type {struct_type}")),
            (r#"{"kind":5}"#, "json: cannot unmarshal number into Go struct field .kind of type string".to_owned()),
        ];
        for (body, message) in cases {
            let error = Document::parse(Format::Json, body.as_bytes()).unwrap().type_meta().unwrap_err().to_owned();
            assert_eq!(error, format!("couldn't get version/kind; json parse error: {message}"));
        }
        assert_eq!(Document::parse(Format::Json, b"null").unwrap().type_meta(), Ok(("", "")));
        let pod = Document::parse(Format::Json, br#"{"apiVersion":"v1","kind":"Pod"}"#).unwrap();
        assert_eq!(pod.type_meta(), Ok(("v1", "Pod")));
    }

    #[test]
    fn lone_surrogates_and_broken_utf8_are_replaced() {
        let document = Document::parse(Format::Json, br#"{"a":"\ud800x\udc00","b":"\ud83d\ude00"}"#).unwrap();
        assert_eq!(document.value, serde_json::json!({"a": "\u{fffd}x\u{fffd}", "b": "😀"}));
        let document = Document::parse(Format::Json, b"{\"a\":\"\xff\"}").unwrap();
        assert_eq!(document.value, serde_json::json!({"a": "\u{fffd}"}));
    }

    #[test]
    fn nesting_is_limited() {
        let nested = |depth: usize| format!(r#"{{"kind":"K","deep":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        let deepest = nested(9_999);
        let document = Document::parse(Format::Json, deepest.as_bytes()).unwrap();
        assert_eq!((document.type_meta(), document.cut.len()), (Ok(("", "K")), 1));
        assert!(document.cut[0].starts_with("deep[0][0]"));
        let error = Document::parse(Format::Json, nested(10_000).as_bytes()).unwrap_err();
        assert_eq!(error, "couldn't get version/kind; json parse error: invalid character '[' exceeded max depth");
        let shallow = nested(MAX_DEPTH - 2);
        let document = Document::parse(Format::Json, shallow.as_bytes()).unwrap();
        assert_eq!(document.cut, [] as [String; 0]);
    }

    #[test]
    fn a_summary_is_short() {
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"   "), "202020");
        assert_eq!(summary(b"{}"), "{}");
        assert_eq!(summary(br#"{"apiVersion":"v1","kind":"ConfigMap"}"#), r#"{"apiVersion":"v1","kind":"Con ..."#);
    }
}
