//! The protobuf messages of version 2: which member of the JSON document is which field.
//!
//! Corresponds to gnostic's OpenAPIv2.proto.

use serde_json::Value;

/// A message, and the mapping from the members of a JSON object to its fields.
pub struct Message {
    pub fields: &'static [(&'static str, u32, Form)],
    /// The number of the field for members whose names begin with `x-`; 0 if there is none.
    pub extensions: u32,
}

/// How one member is encoded.
pub enum Form {
    Text,
    Texts,
    Flag,
    Double,
    Integer,
    /// Any JSON value, as YAML.
    Anything,
    EachAnything,
    Message(&'static Message),
    /// A list of messages, each inside other messages that depend on its content.
    EachWrapped(Wrapping),
    Wrapped(Wrapping),
    /// One text or a list of them, in a message of its own.
    OneOrMoreTexts,
    /// One schema or a list of them, in a message of its own.
    OneOrMore(&'static Message),
    /// A schema or a boolean, in a message of its own.
    SchemaOrFlag(&'static Message),
    /// A map, as a message whose field of this number repeats pairs of a name and a value.
    Pairs(u32, Wrapping),
    /// A list of maps from names to lists of texts.
    EachTextsByName,
}

/// Returns the field numbers of the messages around a message, outermost first, and the message itself.
pub type Wrapping = fn(&Value) -> (&'static [u32], &'static Message);

pub static DOCUMENT: Message = Message {
    fields: &[
        ("swagger", 1, Form::Text),
        ("info", 2, Form::Message(&INFO)),
        ("schemes", 5, Form::Texts),
        ("consumes", 6, Form::Texts),
        ("produces", 7, Form::Texts),
        ("paths", 8, Form::Pairs(2, |_| (&[], &PATH_ITEM))),
        ("definitions", 9, Form::Pairs(1, |_| (&[], &SCHEMA))),
        ("security", 12, Form::EachTextsByName),
        ("securityDefinitions", 13, Form::Pairs(1, |_| (&[2], &API_KEY_SECURITY))),
    ],
    extensions: 16,
};

static INFO: Message = Message {
    fields: &[("title", 1, Form::Text), ("version", 2, Form::Text), ("description", 3, Form::Text)],
    extensions: 7,
};

static PATH_ITEM: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("get", 2, Form::Message(&OPERATION)),
        ("put", 3, Form::Message(&OPERATION)),
        ("post", 4, Form::Message(&OPERATION)),
        ("delete", 5, Form::Message(&OPERATION)),
        ("options", 6, Form::Message(&OPERATION)),
        ("head", 7, Form::Message(&OPERATION)),
        ("patch", 8, Form::Message(&OPERATION)),
        ("parameters", 9, Form::EachWrapped(parameter)),
    ],
    extensions: 10,
};

static OPERATION: Message = Message {
    fields: &[
        ("tags", 1, Form::Texts),
        ("summary", 2, Form::Text),
        ("description", 3, Form::Text),
        ("operationId", 5, Form::Text),
        ("produces", 6, Form::Texts),
        ("consumes", 7, Form::Texts),
        ("parameters", 8, Form::EachWrapped(parameter)),
        ("responses", 9, Form::Pairs(1, response)),
        ("schemes", 10, Form::Texts),
        ("deprecated", 11, Form::Flag),
        ("security", 12, Form::EachTextsByName),
    ],
    extensions: 13,
};

/// Returns the message of a reference, a body, or a parameter in one of four places.
fn parameter(value: &Value) -> (&'static [u32], &'static Message) {
    match value["in"].as_str() {
        _ if value["$ref"].is_string() => (&[2], &REFERENCE),
        Some("body") => (&[1, 1], &BODY_PARAMETER),
        Some("header") => (&[1, 2, 1], &PATH_PARAMETER),
        Some("formData") => (&[1, 2, 2], &QUERY_PARAMETER),
        Some("path") => (&[1, 2, 4], &PATH_PARAMETER),
        _ => (&[1, 2, 3], &QUERY_PARAMETER),
    }
}

fn response(value: &Value) -> (&'static [u32], &'static Message) {
    if value["$ref"].is_string() { (&[2], &REFERENCE) } else { (&[1], &RESPONSE) }
}

static REFERENCE: Message =
    Message { fields: &[("$ref", 1, Form::Text), ("description", 2, Form::Text)], extensions: 0 };

static RESPONSE: Message = Message {
    fields: &[("description", 1, Form::Text), ("schema", 2, Form::Wrapped(|_| (&[1], &SCHEMA)))],
    extensions: 5,
};

static BODY_PARAMETER: Message = Message {
    fields: &[
        ("description", 1, Form::Text),
        ("name", 2, Form::Text),
        ("in", 3, Form::Text),
        ("required", 4, Form::Flag),
        ("schema", 5, Form::Message(&SCHEMA)),
    ],
    extensions: 6,
};

/// Also used for headers.
static PATH_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("type", 5, Form::Text),
        ("format", 6, Form::Text),
        ("collectionFormat", 8, Form::Text),
        ("default", 9, Form::Anything),
        ("maximum", 10, Form::Double),
        ("exclusiveMaximum", 11, Form::Flag),
        ("minimum", 12, Form::Double),
        ("exclusiveMinimum", 13, Form::Flag),
        ("maxLength", 14, Form::Integer),
        ("minLength", 15, Form::Integer),
        ("pattern", 16, Form::Text),
        ("maxItems", 17, Form::Integer),
        ("minItems", 18, Form::Integer),
        ("uniqueItems", 19, Form::Flag),
        ("enum", 20, Form::EachAnything),
        ("multipleOf", 21, Form::Double),
    ],
    extensions: 22,
};

/// Also used for form data. Its parameters may be empty, so every later field number is one higher.
static QUERY_PARAMETER: Message = Message {
    fields: &[
        ("required", 1, Form::Flag),
        ("in", 2, Form::Text),
        ("description", 3, Form::Text),
        ("name", 4, Form::Text),
        ("allowEmptyValue", 5, Form::Flag),
        ("type", 6, Form::Text),
        ("format", 7, Form::Text),
        ("collectionFormat", 9, Form::Text),
        ("default", 10, Form::Anything),
        ("maximum", 11, Form::Double),
        ("exclusiveMaximum", 12, Form::Flag),
        ("minimum", 13, Form::Double),
        ("exclusiveMinimum", 14, Form::Flag),
        ("maxLength", 15, Form::Integer),
        ("minLength", 16, Form::Integer),
        ("pattern", 17, Form::Text),
        ("maxItems", 18, Form::Integer),
        ("minItems", 19, Form::Integer),
        ("uniqueItems", 20, Form::Flag),
        ("enum", 21, Form::EachAnything),
        ("multipleOf", 22, Form::Double),
    ],
    extensions: 23,
};

static SCHEMA: Message = Message {
    fields: &[
        ("$ref", 1, Form::Text),
        ("format", 2, Form::Text),
        ("title", 3, Form::Text),
        ("description", 4, Form::Text),
        ("default", 5, Form::Anything),
        ("multipleOf", 6, Form::Double),
        ("maximum", 7, Form::Double),
        ("exclusiveMaximum", 8, Form::Flag),
        ("minimum", 9, Form::Double),
        ("exclusiveMinimum", 10, Form::Flag),
        ("maxLength", 11, Form::Integer),
        ("minLength", 12, Form::Integer),
        ("pattern", 13, Form::Text),
        ("maxItems", 14, Form::Integer),
        ("minItems", 15, Form::Integer),
        ("uniqueItems", 16, Form::Flag),
        ("maxProperties", 17, Form::Integer),
        ("minProperties", 18, Form::Integer),
        ("required", 19, Form::Texts),
        ("enum", 20, Form::EachAnything),
        ("additionalProperties", 21, Form::SchemaOrFlag(&SCHEMA)),
        ("type", 22, Form::OneOrMoreTexts),
        ("items", 23, Form::OneOrMore(&SCHEMA)),
        ("allOf", 24, Form::EachWrapped(|_| (&[], &SCHEMA))),
        ("properties", 25, Form::Pairs(1, |_| (&[], &SCHEMA))),
        ("discriminator", 26, Form::Text),
        ("readOnly", 27, Form::Flag),
        ("externalDocs", 29, Form::Message(&EXTERNAL_DOCS)),
        ("example", 30, Form::Anything),
    ],
    extensions: 31,
};

static EXTERNAL_DOCS: Message =
    Message { fields: &[("description", 1, Form::Text), ("url", 2, Form::Text)], extensions: 3 };

static API_KEY_SECURITY: Message = Message {
    fields: &[("type", 1, Form::Text), ("name", 2, Form::Text), ("in", 3, Form::Text), ("description", 4, Form::Text)],
    extensions: 5,
};
