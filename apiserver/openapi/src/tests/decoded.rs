//! A client's decoder of the protobuf form: gnostic's messages, declared separately from the encoder, and back to JSON.

use prost::Message;
use serde_json::{Map, Value, json};

#[derive(Clone, PartialEq, Message)]
pub struct Any {
    #[prost(string, tag = "2")]
    yaml: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedAny {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Document {
    #[prost(string, tag = "1")]
    swagger: String,
    #[prost(message, optional, tag = "2")]
    info: Option<Info>,
    #[prost(message, optional, tag = "8")]
    paths: Option<Paths>,
    #[prost(message, optional, tag = "9")]
    definitions: Option<Schemas>,
    #[prost(message, repeated, tag = "12")]
    security: Vec<SecurityRequirement>,
    #[prost(message, optional, tag = "13")]
    security_definitions: Option<SecurityDefinitions>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Info {
    #[prost(string, tag = "1")]
    title: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct SecurityRequirement {
    #[prost(message, repeated, tag = "1")]
    named: Vec<NamedTexts>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedTexts {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Texts>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Texts {
    #[prost(string, repeated, tag = "1")]
    value: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SecurityDefinitions {
    #[prost(message, repeated, tag = "1")]
    named: Vec<NamedSecurity>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedSecurity {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Security>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Security {
    #[prost(message, optional, tag = "2")]
    api_key: Option<ApiKey>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ApiKey {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    place: String,
    #[prost(string, tag = "4")]
    description: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Paths {
    #[prost(message, repeated, tag = "2")]
    path: Vec<NamedPath>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedPath {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<PathItem>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PathItem {
    #[prost(message, optional, tag = "2")]
    get: Option<Operation>,
    #[prost(message, optional, tag = "3")]
    put: Option<Operation>,
    #[prost(message, optional, tag = "4")]
    post: Option<Operation>,
    #[prost(message, optional, tag = "5")]
    delete: Option<Operation>,
    #[prost(message, optional, tag = "6")]
    options: Option<Operation>,
    #[prost(message, optional, tag = "7")]
    head: Option<Operation>,
    #[prost(message, optional, tag = "8")]
    patch: Option<Operation>,
    #[prost(message, repeated, tag = "9")]
    parameters: Vec<ParametersItem>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Operation {
    #[prost(string, repeated, tag = "1")]
    tags: Vec<String>,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "5")]
    operation_id: String,
    #[prost(string, repeated, tag = "6")]
    produces: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    consumes: Vec<String>,
    #[prost(message, repeated, tag = "8")]
    parameters: Vec<ParametersItem>,
    #[prost(message, optional, tag = "9")]
    responses: Option<Responses>,
    #[prost(string, repeated, tag = "10")]
    schemes: Vec<String>,
    #[prost(message, repeated, tag = "13")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ParametersItem {
    #[prost(message, optional, tag = "1")]
    parameter: Option<Parameter>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Parameter {
    #[prost(message, optional, tag = "1")]
    body: Option<BodyParameter>,
    #[prost(message, optional, tag = "2")]
    other: Option<NonBodyParameter>,
}

#[derive(Clone, PartialEq, Message)]
pub struct BodyParameter {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, tag = "3")]
    place: String,
    #[prost(bool, tag = "4")]
    required: bool,
    #[prost(message, optional, tag = "5")]
    schema: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NonBodyParameter {
    #[prost(message, optional, tag = "3")]
    query: Option<QueryParameter>,
    #[prost(message, optional, tag = "4")]
    path: Option<PathParameter>,
}

#[derive(Clone, PartialEq, Message)]
pub struct QueryParameter {
    #[prost(bool, tag = "1")]
    required: bool,
    #[prost(string, tag = "2")]
    place: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "6")]
    kind: String,
    #[prost(bool, tag = "20")]
    unique_items: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PathParameter {
    #[prost(bool, tag = "1")]
    required: bool,
    #[prost(string, tag = "2")]
    place: String,
    #[prost(string, tag = "3")]
    description: String,
    #[prost(string, tag = "4")]
    name: String,
    #[prost(string, tag = "5")]
    kind: String,
    #[prost(bool, tag = "19")]
    unique_items: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Responses {
    #[prost(message, repeated, tag = "1")]
    named: Vec<NamedResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedResponse {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<ResponseValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResponseValue {
    #[prost(message, optional, tag = "1")]
    response: Option<Response>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Response {
    #[prost(string, tag = "1")]
    description: String,
    #[prost(message, optional, tag = "2")]
    schema: Option<SchemaItem>,
}

#[derive(Clone, PartialEq, Message)]
pub struct SchemaItem {
    #[prost(message, optional, tag = "1")]
    schema: Option<Schema>,
}

/// Used for `Definitions` and `Properties`.
#[derive(Clone, PartialEq, Message)]
pub struct Schemas {
    #[prost(message, repeated, tag = "1")]
    named: Vec<NamedSchema>,
}

#[derive(Clone, PartialEq, Message)]
pub struct NamedSchema {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    value: Option<Schema>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Schema {
    #[prost(string, tag = "1")]
    reference: String,
    #[prost(string, tag = "2")]
    format: String,
    #[prost(string, tag = "4")]
    description: String,
    #[prost(message, optional, tag = "5")]
    default: Option<Any>,
    #[prost(double, optional, tag = "6")]
    multiple_of: Option<f64>,
    #[prost(double, optional, tag = "7")]
    maximum: Option<f64>,
    #[prost(bool, tag = "8")]
    exclusive_maximum: bool,
    #[prost(double, optional, tag = "9")]
    minimum: Option<f64>,
    #[prost(bool, tag = "10")]
    exclusive_minimum: bool,
    #[prost(int64, optional, tag = "11")]
    max_length: Option<i64>,
    #[prost(int64, optional, tag = "12")]
    min_length: Option<i64>,
    #[prost(string, tag = "13")]
    pattern: String,
    #[prost(int64, optional, tag = "14")]
    max_items: Option<i64>,
    #[prost(int64, optional, tag = "15")]
    min_items: Option<i64>,
    #[prost(int64, optional, tag = "17")]
    max_properties: Option<i64>,
    #[prost(int64, optional, tag = "18")]
    min_properties: Option<i64>,
    #[prost(string, repeated, tag = "19")]
    required: Vec<String>,
    #[prost(message, repeated, tag = "20")]
    allowed: Vec<Any>,
    #[prost(message, optional, boxed, tag = "21")]
    additional_properties: Option<Box<AdditionalProperties>>,
    #[prost(message, optional, tag = "22")]
    kind: Option<Texts>,
    #[prost(message, optional, tag = "23")]
    items: Option<Items>,
    #[prost(message, repeated, tag = "24")]
    all_of: Vec<Schema>,
    #[prost(message, optional, tag = "25")]
    properties: Option<Schemas>,
    #[prost(message, repeated, tag = "31")]
    vendor_extension: Vec<NamedAny>,
}

#[derive(Clone, PartialEq, Message)]
pub struct AdditionalProperties {
    #[prost(message, optional, boxed, tag = "1")]
    schema: Option<Box<Schema>>,
    #[prost(bool, optional, tag = "2")]
    boolean: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Items {
    #[prost(message, repeated, tag = "1")]
    schema: Vec<Schema>,
}

/// Builds an object from its members, leaving out the empty ones.
fn object<const N: usize>(members: [(&str, Value); N], extensions: &[NamedAny]) -> Value {
    let is_said = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let said = members.into_iter().filter(|(_, value)| is_said(value)).map(|(name, value)| (name.to_owned(), value));
    let extended = extensions.iter().map(|pair| (pair.name.clone(), any(pair.value.as_ref().unwrap())));
    Value::Object(said.chain(extended).collect())
}

/// Reads YAML, which this server always writes as JSON.
fn any(any: &Any) -> Value {
    serde_json::from_str(&any.yaml).unwrap()
}

/// Writes whole numbers without a point, as in JSON.
fn number(number: Option<f64>) -> Value {
    number.map_or(Value::Null, |number| if number.fract() == 0.0 { json!(number as i64) } else { json!(number) })
}

fn pairs<T>(named: &[T], pair: impl Fn(&T) -> (String, Value)) -> Value {
    Value::Object(named.iter().map(pair).collect::<Map<String, Value>>())
}

fn schemas(schemas: &Schemas) -> Value {
    pairs(&schemas.named, |named| (named.name.clone(), schema(named.value.as_ref().unwrap())))
}

fn schema(of: &Schema) -> Value {
    let additional =
        of.additional_properties.as_ref().map(|additional| match (&additional.schema, additional.boolean) {
            (Some(of), None) => schema(of),
            (None, Some(flag)) => json!(flag),
            other => panic!("neither a schema nor a boolean: {other:?}"),
        });
    let items = of.items.as_ref().map(|items| match items.schema.as_slice() {
        [only] => schema(only),
        several => panic!("{} schemas of items", several.len()),
    });
    let kind = of.kind.as_ref().map(|kind| match kind.value.as_slice() {
        [only] => json!(only),
        several => json!(several),
    });
    let members = [
        ("$ref", json!(of.reference)),
        ("format", json!(of.format)),
        ("description", json!(of.description)),
        ("multipleOf", number(of.multiple_of)),
        ("maximum", number(of.maximum)),
        ("exclusiveMaximum", json!(of.exclusive_maximum)),
        ("minimum", number(of.minimum)),
        ("exclusiveMinimum", json!(of.exclusive_minimum)),
        ("maxLength", json!(of.max_length)),
        ("minLength", json!(of.min_length)),
        ("pattern", json!(of.pattern)),
        ("maxItems", json!(of.max_items)),
        ("minItems", json!(of.min_items)),
        ("maxProperties", json!(of.max_properties)),
        ("minProperties", json!(of.min_properties)),
        ("required", json!(of.required)),
        ("enum", of.allowed.iter().map(any).collect()),
        ("additionalProperties", json!(additional)),
        ("type", json!(kind)),
        ("items", json!(items)),
        ("allOf", of.all_of.iter().map(schema).collect()),
        ("properties", json!(of.properties.as_ref().map(schemas))),
    ];
    let mut written = object(members, &of.vendor_extension);
    // A default may be an empty value.
    if let Some(default) = &of.default {
        written["default"] = any(default);
    }
    written
}

fn parameter(item: &ParametersItem) -> Value {
    let parameter = item.parameter.as_ref().unwrap();
    if let Some(body) = &parameter.body {
        let members = [
            ("description", json!(body.description)),
            ("name", json!(body.name)),
            ("in", json!(body.place)),
            ("required", json!(body.required)),
            ("schema", json!(body.schema.as_ref().map(schema))),
        ];
        return object(members, &[]);
    }
    let other = parameter.other.as_ref().unwrap();
    let (required, place, description, name, kind, unique) = match (&other.query, &other.path) {
        (Some(of), None) => (of.required, &of.place, &of.description, &of.name, &of.kind, of.unique_items),
        (None, Some(of)) => (of.required, &of.place, &of.description, &of.name, &of.kind, of.unique_items),
        both => panic!("a parameter of two places or none: {both:?}"),
    };
    assert_eq!(place == "path", other.path.is_some());
    let members = [
        ("required", json!(required)),
        ("in", json!(place)),
        ("description", json!(description)),
        ("name", json!(name)),
        ("type", json!(kind)),
        ("uniqueItems", json!(unique)),
    ];
    object(members, &[])
}

fn response(named: &NamedResponse) -> (String, Value) {
    let response = named.value.as_ref().and_then(|value| value.response.as_ref()).unwrap();
    let of = response.schema.as_ref().map(|item| schema(item.schema.as_ref().unwrap()));
    (named.name.clone(), object([("description", json!(response.description)), ("schema", json!(of))], &[]))
}

fn operation(of: &Operation) -> Value {
    let members = [
        ("tags", json!(of.tags)),
        ("description", json!(of.description)),
        ("operationId", json!(of.operation_id)),
        ("produces", json!(of.produces)),
        ("consumes", json!(of.consumes)),
        ("parameters", of.parameters.iter().map(parameter).collect()),
        ("responses", pairs(&of.responses.as_ref().unwrap().named, response)),
        ("schemes", json!(of.schemes)),
    ];
    object(members, &of.vendor_extension)
}

fn path(named: &NamedPath) -> (String, Value) {
    let of = named.value.as_ref().unwrap();
    let method = |method: &Option<Operation>| json!(method.as_ref().map(operation));
    let members = [
        ("get", method(&of.get)),
        ("put", method(&of.put)),
        ("post", method(&of.post)),
        ("delete", method(&of.delete)),
        ("options", method(&of.options)),
        ("head", method(&of.head)),
        ("patch", method(&of.patch)),
        ("parameters", of.parameters.iter().map(parameter).collect()),
    ];
    (named.name.clone(), object(members, &[]))
}

/// Decodes the document to JSON.
pub fn document(bytes: &[u8]) -> Value {
    let Document { swagger, info, paths, definitions, security, security_definitions } =
        Document::decode(bytes).unwrap();
    let info = info.unwrap();
    let security: Vec<Value> = security
        .iter()
        .map(|one| pairs(&one.named, |named| (named.name.clone(), json!(named.value.as_ref().unwrap().value))))
        .collect();
    let keys = security_definitions.map(|keys| {
        pairs(&keys.named, |named| {
            let key = named.value.as_ref().and_then(|value| value.api_key.as_ref()).unwrap();
            let members = [
                ("type", json!(key.kind)),
                ("name", json!(key.name)),
                ("in", json!(key.place)),
                ("description", json!(key.description)),
            ];
            (named.name.clone(), object(members, &[]))
        })
    });
    json!({
        "swagger": swagger,
        "info": {"title": info.title, "version": info.version},
        "paths": pairs(&paths.unwrap().path, path),
        "definitions": schemas(&definitions.unwrap()),
        "security": security,
        "securityDefinitions": keys,
    })
}
