//! Structural schemas: the `openAPIV3Schema` of a custom resource in the form that the schema engine runs.
//!
//! Custom resources are handled by their structural schema as built-in resources are by compiled-in types: `prune`
//! removes unknown fields, `fill` sets defaults, `validate` finds all errors, and `form` derives the merging form for
//! server-side apply and OpenAPI. Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema.

pub mod embedded;
pub mod fill;
pub mod form;
pub mod formats;
pub mod json_path;
pub mod lists;
pub mod prune;
pub mod validate;

use super::ListType;
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The six types that a structural schema can name.
pub const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// One node of a schema. The branches of `allOf`, `anyOf`, `oneOf` and `not` are nodes too, without types.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    /// Empty if any type is allowed; `integer,string` for int-or-string.
    pub types: Vec<&'static str>,
    pub description: Arc<str>,
    pub default: Option<Value>,
    pub nullable: bool,
    pub properties: BTreeMap<Arc<str>, Structural>,
    pub additional: Additional,
    pub items: Option<Box<Structural>>,
    pub required: Vec<Arc<str>>,
    pub preserve_unknown: bool,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<ListType>,
    pub list_map_keys: Vec<Arc<str>>,
    pub atomic_map: bool,
    pub value: ValueRules,
    pub rules: Vec<Rule>,
}

/// The fields that an object may have beside its named properties.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    #[default]
    None,
    /// `additionalProperties: true`
    Anything,
    Schema(Box<Structural>),
}

/// The rules that a value must satisfy beside its type.
#[derive(Clone, Debug, Default)]
pub struct ValueRules {
    pub format: String,
    pub allowed: Vec<Value>,
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Pattern>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub all_of: Vec<Structural>,
    pub any_of: Vec<Structural>,
    pub one_of: Vec<Structural>,
    pub not: Option<Box<Structural>>,
}

/// A regular expression, with its text for messages.
#[derive(Clone, Debug)]
pub struct Pattern {
    pub text: String,
    pub regex: Regex,
}

/// One entry of `x-kubernetes-validations`, as it is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

impl Structural {
    /// Reads a schema that has been validated. Ignores malformed parts.
    pub fn parse(schema: &Value) -> Self {
        let texts = |key: &str| -> Vec<Arc<str>> {
            let items = schema.get(key).and_then(Value::as_array).into_iter().flatten();
            items.filter_map(Value::as_str).map(Arc::from).collect()
        };
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let text = |key: &str| schema.get(key).and_then(Value::as_str).unwrap_or_default();
        let named = TYPES.into_iter().find(|known| *known == text("type"));
        let int_or_string = flag("x-kubernetes-int-or-string");
        let types = match named {
            Some(name) => vec![name],
            None if int_or_string => vec!["integer", "string"],
            None => Vec::new(),
        };
        Self {
            types,
            description: text("description").into(),
            default: schema.get("default").cloned(),
            nullable: flag("nullable"),
            properties: properties(schema),
            additional: additional(schema),
            items: schema.get("items").filter(|items| items.is_object()).map(|items| Box::new(Self::parse(items))),
            required: texts("required"),
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag("x-kubernetes-embedded-resource"),
            int_or_string,
            list_type: match text("x-kubernetes-list-type") {
                "atomic" => Some(ListType::Atomic),
                "set" => Some(ListType::Set),
                "map" => Some(ListType::Map),
                _ => None,
            },
            list_map_keys: texts("x-kubernetes-list-map-keys"),
            atomic_map: text("x-kubernetes-map-type") == "atomic",
            value: ValueRules::parse(schema),
            rules: rules(schema),
        }
    }

    /// Returns the schema of an object's field, named or not, or `None` if there is none.
    pub fn field(&self, name: &str) -> Option<&Structural> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(values)) => Some(values),
            _ => None,
        }
    }

    /// Returns whether a value is null and must not be.
    fn refuses_null(&self, value: &Value) -> bool {
        value.is_null() && !self.nullable
    }
}

impl ValueRules {
    fn parse(schema: &Value) -> Self {
        let flag = |key: &str| schema.get(key).and_then(Value::as_bool).unwrap_or(false);
        let number = |key: &str| schema.get(key).and_then(Value::as_f64);
        let count = |key: &str| schema.get(key).and_then(Value::as_i64);
        let branches = |key: &str| -> Vec<Structural> {
            schema.get(key).and_then(Value::as_array).into_iter().flatten().map(Structural::parse).collect()
        };
        let pattern = schema.get("pattern").and_then(Value::as_str).filter(|text| !text.is_empty());
        Self {
            format: schema.get("format").and_then(Value::as_str).unwrap_or_default().to_owned(),
            allowed: schema.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: pattern.and_then(Pattern::new),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            unique_items: flag("uniqueItems"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            all_of: branches("allOf"),
            any_of: branches("anyOf"),
            one_of: branches("oneOf"),
            not: schema.get("not").filter(|not| not.is_object()).map(|not| Box::new(Structural::parse(not))),
        }
    }
}

impl Pattern {
    /// Compiles a pattern. The syntax of Go is nearly that of the `regex` crate, and both run in linear time.
    pub fn new(text: &str) -> Option<Self> {
        Some(Self { text: text.to_owned(), regex: Regex::new(text).ok()? })
    }
}

fn properties(schema: &Value) -> BTreeMap<Arc<str>, Structural> {
    let named = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    named.map(|(name, property)| (name.as_str().into(), Structural::parse(property))).collect()
}

fn additional(schema: &Value) -> Additional {
    match schema.get("additionalProperties") {
        Some(Value::Bool(true)) => Additional::Anything,
        Some(values @ Value::Object(_)) => Additional::Schema(Box::new(Structural::parse(values))),
        _ => Additional::None,
    }
}

/// Returns the rules of one node of a schema, as they are written.
pub fn rules(schema: &Value) -> Vec<Rule> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten();
    let read = |rule: &Value| {
        let text = |key: &str| rule.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Rule {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
        }
    };
    rules.map(read).collect()
}

/// Turns numbers without a fraction into integers, as Go writes them: `4.0` becomes `4`.
pub fn plain_numbers(value: &mut Value) {
    /// Beyond this, Go writes an exponent.
    const LARGEST: f64 = 1e15;
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < LARGEST {
                *value = Value::from(float as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(plain_numbers),
        Value::Object(members) => members.values_mut().for_each(plain_numbers),
        _ => {}
    }
}

/// Returns whether every object has this field, so that no schema needs to name it.
pub fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Calls `visit` with a value and everything inside it that has a schema, each with its schema and path.
fn walk<'v>(schema: &Structural, value: &'v Value, path: &str, visit: &mut dyn FnMut(&Structural, &'v Value, &str)) {
    visit(schema, value, path);
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let Some(inner) = schema.field(name) else { continue };
                let is_named = schema.properties.contains_key(name.as_str());
                walk(inner, member, &lists::below(path, name, is_named), visit);
            }
        }
        Value::Array(items) => {
            let Some(of_items) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                walk(of_items, item, &format!("{path}[{index}]"), visit);
            }
        }
        _ => {}
    }
}
