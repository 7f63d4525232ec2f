//! Structural schemas: what the `openAPIV3Schema` of a custom resource says, in the form that the engine runs.
//!
//! A structural schema does everything for custom resources that compiled-in types do for built-in ones: `prune` takes
//! unknown fields out, `fill` gives defaults, `validate` finds every error, `form` derives the merging form that
//! server-side apply and OpenAPI read. Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema.

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
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The six types that a structural schema can name.
pub const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// One node of a schema. The branches of `allOf`, `anyOf`, `oneOf` and `not` are nodes too, without types.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    /// Empty where any type will do; `integer,string` for int-or-string.
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

/// What may stand beside the named properties of an object.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    #[default]
    None,
    /// `additionalProperties: true`
    Anything,
    Schema(Box<Structural>),
}

/// What a value has to satisfy beside its type.
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

/// A regular expression with the text that messages quote.
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
    /// Reads a schema that has been validated; what is malformed counts as absent.
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

    /// The schema of an object's field, named or not; `None` where nothing is known of it.
    pub fn field(&self, name: &str) -> Option<&Structural> {
        match (self.properties.get(name), &self.additional) {
            (Some(property), _) => Some(property),
            (None, Additional::Schema(values)) => Some(values),
            _ => None,
        }
    }

    /// Null where null is not allowed.
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
    /// Go's expressions are nearly those of the `regex` crate; neither can take more than linear time.
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

/// The rules of one node of a schema, as they are written.
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

/// Numbers without a fraction lose their point, as Go writes them: `4.0` is `4`.
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

/// The fields that every object has and no schema needs to name.
pub fn is_meta_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// The members of an object, or none.
fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    static NOTHING: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    value.as_object().unwrap_or(&NOTHING).iter()
}
