//! Version 2 in protobuf: client-go reads it, and so does kubectl for a kind that is in no version 3 document.
//!
//! Written from the JSON document, by the table of messages in `gnostic.rs`.

use super::gnostic::{DOCUMENT, Form, Message, Wrapping};
use serde_json::Value;

/// Content type of the response.
pub const MEDIA_TYPE: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// Fields of a pair: a name in a map and its value. Extensions are pairs, too.
const NAME: u32 = 1;
const VALUE: u32 = 2;
/// Field of `Any`, which carries YAML; JSON is a subset of it.
const YAML: u32 = 2;
/// The first or only field of a message that wraps others.
const ONLY: u32 = 1;
/// Field of `AdditionalPropertiesItem`.
const BOOLEAN: u32 = 2;

/// The wire types of protobuf.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH_DELIMITED: u64 = 2;

/// Encodes the document from its JSON form.
pub fn encode(document: &Value) -> Vec<u8> {
    let mut out = Out::default();
    out.fields(&DOCUMENT, document);
    out.0
}

/// A message that is being encoded.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, number: u32, wire_type: u64) {
        self.varint(u64::from(number) << 3 | wire_type);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.tag(number, LENGTH_DELIMITED);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, number: u32, text: &Value) {
        if let Some(text) = text.as_str() {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u32, flag: bool) {
        self.tag(number, VARINT);
        self.varint(flag.into());
    }

    fn message(&mut self, number: u32, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    fn anything(&mut self, number: u32, value: &Value) {
        self.message(number, |any| any.bytes(YAML, value.to_string().as_bytes()));
    }

    fn fields(&mut self, message: &'static Message, value: &Value) {
        for (name, number, form) in message.fields {
            if let Some(member) = value.get(name) {
                self.field(*number, form, member);
            }
        }
        let Some(members) = value.as_object().filter(|_| message.extensions != 0) else { return };
        for (name, extension) in members.iter().filter(|(name, _)| name.starts_with("x-")) {
            self.message(message.extensions, |pair| {
                pair.bytes(NAME, name.as_bytes());
                pair.anything(VALUE, extension);
            });
        }
    }

    fn field(&mut self, number: u32, form: &Form, value: &Value) {
        match form {
            Form::Text => self.text(number, value),
            Form::Texts => items(value).for_each(|text| self.text(number, text)),
            Form::Flag => value.as_bool().into_iter().for_each(|flag| self.flag(number, flag)),
            Form::Double => {
                if let Some(double) = value.as_f64() {
                    self.tag(number, FIXED64);
                    self.0.extend_from_slice(&double.to_le_bytes());
                }
            }
            Form::Integer => {
                if let Some(integer) = value.as_i64() {
                    self.tag(number, VARINT);
                    self.varint(integer.cast_unsigned());
                }
            }
            Form::Anything => self.anything(number, value),
            Form::EachAnything => items(value).for_each(|item| self.anything(number, item)),
            Form::Message(message) => self.message(number, |out| out.fields(message, value)),
            Form::Wrapped(wrapping) => self.message(number, |out| out.wrapped(*wrapping, value)),
            Form::EachWrapped(wrapping) => {
                items(value).for_each(|item| self.message(number, |out| out.wrapped(*wrapping, item)));
            }
            Form::OneOrMoreTexts => self.message(number, |out| one_or_more(value).for_each(|one| out.text(ONLY, one))),
            Form::OneOrMore(message) => self.message(number, |out| {
                one_or_more(value).for_each(|one| out.message(ONLY, |schema| schema.fields(message, one)));
            }),
            Form::SchemaOrFlag(message) => self.message(number, |out| match value {
                Value::Bool(flag) => out.flag(BOOLEAN, *flag),
                schema => out.message(ONLY, |out| out.fields(message, schema)),
            }),
            Form::Pairs(pair, wrapping) => self.message(number, |out| out.pairs(*pair, *wrapping, value)),
            Form::EachTextsByName => items(value).for_each(|item| {
                self.message(number, |out| {
                    members(item).for_each(|(name, texts)| {
                        out.message(ONLY, |pair| {
                            pair.bytes(NAME, name.as_bytes());
                            pair.message(VALUE, |list| items(texts).for_each(|text| list.text(ONLY, text)));
                        });
                    });
                });
            }),
        }
    }

    fn pairs(&mut self, number: u32, wrapping: Wrapping, map: &Value) {
        for (name, value) in members(map) {
            self.message(number, |pair| {
                pair.bytes(NAME, name.as_bytes());
                pair.message(VALUE, |out| out.wrapped(wrapping, value));
            });
        }
    }

    /// Encodes the fields of a message, inside the messages around it.
    fn wrapped(&mut self, wrapping: Wrapping, value: &Value) {
        let (numbers, message) = wrapping(value);
        self.inside(numbers, message, value);
    }

    fn inside(&mut self, numbers: &[u32], message: &'static Message, value: &Value) {
        match numbers {
            [] => self.fields(message, value),
            [outer, inner @ ..] => self.message(*outer, |out| out.inside(inner, message, value)),
        }
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// Returns the items of a list, or the value itself if it is no list.
fn one_or_more(value: &Value) -> impl Iterator<Item = &Value> {
    let (one, list) = if value.is_array() { (None, Some(value)) } else { (Some(value), None) };
    one.into_iter().chain(list.into_iter().flat_map(items))
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
            "paths": {},
            "definitions": {"A": {"type": "string", "minLength": 300, "maximum": 1.5}},
        });
        let expected: &[u8] = &[
            0x0a, 3, b'2', b'.', b'0', // swagger
            0x12, 6, 0x0a, 1, b'T', 0x12, 1, b'1', // info
            0x42, 0, // paths
            0x4a, 30, // definitions
            0x0a, 28, 0x0a, 1, b'A', // pair "A"
            0x12, 23, 0x39, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f, // maximum
            0x60, 0xac, 0x02, // minLength
            0xb2, 1, 8, 0x0a, 6, b's', b't', b'r', b'i', b'n', b'g', // its type
        ];
        assert_eq!(encode(&document), expected);
    }
}
