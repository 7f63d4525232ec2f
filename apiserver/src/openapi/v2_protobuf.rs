//! The second version in protobuf: what kubectl asks for when a kind is in no version 3 document.
//!
//! Corresponds to the messages of gnostic's OpenAPIv2.proto. Written from the JSON document.
//!
//! Deviation: the protobuf form has the definitions and no paths.

use serde_json::Value;

/// Content type of the answer.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Field numbers of `Document`, `Info`, the named pairs of a map, `Schema` and `Any`.
mod number {
    pub const SWAGGER: u32 = 1;
    pub const INFO: u32 = 2;
    pub const PATHS: u32 = 8;
    pub const DEFINITIONS: u32 = 9;
    pub const TITLE: u32 = 1;
    pub const VERSION: u32 = 2;
    pub const PAIRS: u32 = 1;
    pub const NAME: u32 = 1;
    pub const VALUE: u32 = 2;
    pub const REF: u32 = 1;
    pub const FORMAT: u32 = 2;
    pub const DESCRIPTION: u32 = 4;
    pub const DEFAULT: u32 = 5;
    pub const REQUIRED: u32 = 19;
    pub const ADDITIONAL_PROPERTIES: u32 = 21;
    pub const TYPE: u32 = 22;
    pub const ITEMS: u32 = 23;
    pub const PROPERTIES: u32 = 25;
    pub const VENDOR_EXTENSION: u32 = 31;
    /// The first member of a message that holds one thing or a list of it.
    pub const ONLY: u32 = 1;
    pub const YAML: u32 = 2;
}

/// The document, from its JSON form.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(number::SWAGGER, &document["swagger"]);
    let mut info = Message::default();
    info.text(number::TITLE, &document["info"]["title"]);
    info.text(number::VERSION, &document["info"]["version"]);
    out.message(number::INFO, info);
    out.message(number::PATHS, Message::default());
    out.message(number::DEFINITIONS, named_schemas(&document["definitions"]));
    out.0
}

/// A message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// All fields used here are length-delimited: wire type 2.
    fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.varint((field as usize) << 3 | 2);
        self.varint(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// A string field; what is no string is left out.
    fn text(&mut self, field: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.bytes(field, text.as_bytes());
        }
    }

    fn message(&mut self, field: u32, inner: Message) {
        self.bytes(field, &inner.0);
    }
}

/// A map of schemas is a list of pairs.
fn named_schemas(schemas: &Value) -> Message {
    let mut out = Message::default();
    for (name, value) in schemas.as_object().into_iter().flatten() {
        let mut pair = Message::default();
        pair.bytes(number::NAME, name.as_bytes());
        pair.message(number::VALUE, schema(value));
        out.message(number::PAIRS, pair);
    }
    out
}

fn schema(value: &Value) -> Message {
    let mut out = Message::default();
    out.text(number::REF, &value["$ref"]);
    out.text(number::FORMAT, &value["format"]);
    out.text(number::DESCRIPTION, &value["description"]);
    if let Some(default) = value.get("default") {
        out.message(number::DEFAULT, any(default));
    }
    for name in value["required"].as_array().into_iter().flatten() {
        out.text(number::REQUIRED, name);
    }
    if value["additionalProperties"].is_object() {
        let mut item = Message::default();
        item.message(number::ONLY, schema(&value["additionalProperties"]));
        out.message(number::ADDITIONAL_PROPERTIES, item);
    }
    if value["type"].is_string() {
        let mut item = Message::default();
        item.text(number::ONLY, &value["type"]);
        out.message(number::TYPE, item);
    }
    if value["items"].is_object() {
        let mut item = Message::default();
        item.message(number::ONLY, schema(&value["items"]));
        out.message(number::ITEMS, item);
    }
    if value["properties"].is_object() {
        out.message(number::PROPERTIES, named_schemas(&value["properties"]));
    }
    for (name, extension) in value.as_object().into_iter().flatten().filter(|(name, _)| name.starts_with("x-")) {
        let mut pair = Message::default();
        pair.bytes(number::NAME, name.as_bytes());
        pair.message(number::VALUE, any(extension));
        out.message(number::VENDOR_EXTENSION, pair);
    }
    out
}

/// Anything at all travels as YAML, of which JSON is a part.
fn any(value: &Value) -> Message {
    let mut out = Message::default();
    out.bytes(number::YAML, value.to_string().as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_small_document_has_these_bytes() {
        let document = json!({
            "swagger": "2.0",
            "info": {"title": "T", "version": "1"},
            "definitions": {"A": {"type": "string"}},
        });
        let expected: &[u8] = &[
            0x0a, 3, b'2', b'.', b'0', // swagger
            0x12, 6, 0x0a, 1, b'T', 0x12, 1, b'1', // info
            0x42, 0, // paths
            0x4a, 18, // definitions
            0x0a, 16, 0x0a, 1, b'A', // pair "A"
            0x12, 11, 0xb2, 1, 8, 0x0a, 6, b's', b't', b'r', b'i', b'n', b'g', // its type
        ];
        assert_eq!(encode(&document), expected);
    }
}
