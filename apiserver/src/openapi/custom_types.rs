//! The schema of a custom resource as version 3 shows it: all that its definition says.
//!
//! Version 2 shows what both kinds of types have in common. Corresponds to the conversion of structural schemas to
//! OpenAPI in k8s.io/apiextensions-apiserver/pkg/apiserver/schema.

use proto::schema::ListType;
use proto::schema::structural::{Additional, Rule, Structural, ValueRules, plain_numbers};
use serde_json::{Map, Value, json};

/// A node with everything below it. `meta_fields` are those of every object, which no schema needs to name.
pub fn written(schema: &Structural, is_root: bool, meta_fields: &Map<String, Value>) -> Value {
    let mut written = value_rules(&schema.value, meta_fields);
    let mut put = |key: &str, value: Value| drop(written.insert(key.to_owned(), value));
    if let [name] = schema.types.as_slice() {
        put("type", json!(name));
    }
    if !schema.description.is_empty() {
        put("description", json!(&*schema.description));
    }
    if let Some(default) = &schema.default {
        put("default", default.clone());
    }
    if !schema.required.is_empty() {
        put("required", schema.required.iter().map(|name| json!(&**name)).collect());
    }
    if let Some(items) = &schema.items {
        put("items", self::written(items, false, meta_fields));
    }
    match &schema.additional {
        Additional::None => {}
        Additional::Anything => put("additionalProperties", json!(true)),
        Additional::Schema(values) => put("additionalProperties", self::written(values, false, meta_fields)),
    }
    let own =
        schema.properties.iter().map(|(name, field)| (name.to_string(), self::written(field, false, meta_fields)));
    let mut properties: Map<String, Value> = own.collect();
    if is_root || schema.embedded_resource {
        properties.extend(meta_fields.clone());
    }
    if !properties.is_empty() {
        put("properties", Value::Object(properties));
    }
    let flags = [
        ("nullable", schema.nullable),
        ("x-kubernetes-preserve-unknown-fields", schema.preserve_unknown),
        ("x-kubernetes-embedded-resource", schema.embedded_resource),
        ("x-kubernetes-int-or-string", schema.int_or_string),
    ];
    flags.into_iter().filter(|(_, is_set)| *is_set).for_each(|(key, _)| put(key, json!(true)));
    if let Some(list_type) = schema.list_type {
        put("x-kubernetes-list-type", json!(list_type_name(list_type)));
    }
    if !schema.list_map_keys.is_empty() {
        put("x-kubernetes-list-map-keys", schema.list_map_keys.iter().map(|key| json!(&**key)).collect());
    }
    if schema.atomic_map {
        put("x-kubernetes-map-type", json!("atomic"));
    }
    if !schema.rules.is_empty() {
        put("x-kubernetes-validations", schema.rules.iter().map(rule).collect());
    }
    Value::Object(written)
}

pub fn list_type_name(list_type: ListType) -> &'static str {
    match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    }
}

fn value_rules(rules: &ValueRules, meta_fields: &Map<String, Value>) -> Map<String, Value> {
    let branches = |branches: &[Structural]| -> Option<Value> {
        (!branches.is_empty()).then(|| branches.iter().map(|branch| written(branch, false, meta_fields)).collect())
    };
    let flag = |is_set: bool| is_set.then_some(Value::Bool(true));
    let entries = [
        ("format", (!rules.format.is_empty()).then(|| json!(rules.format))),
        ("enum", (!rules.allowed.is_empty()).then(|| json!(rules.allowed))),
        ("maximum", rules.maximum.map(number)),
        ("exclusiveMaximum", flag(rules.exclusive_maximum)),
        ("minimum", rules.minimum.map(number)),
        ("exclusiveMinimum", flag(rules.exclusive_minimum)),
        ("multipleOf", rules.multiple_of.map(number)),
        ("maxLength", rules.max_length.map(Value::from)),
        ("minLength", rules.min_length.map(Value::from)),
        ("pattern", rules.pattern.as_ref().map(|pattern| json!(pattern.text))),
        ("maxItems", rules.max_items.map(Value::from)),
        ("minItems", rules.min_items.map(Value::from)),
        ("uniqueItems", flag(rules.unique_items)),
        ("maxProperties", rules.max_properties.map(Value::from)),
        ("minProperties", rules.min_properties.map(Value::from)),
        ("allOf", branches(&rules.all_of)),
        ("anyOf", branches(&rules.any_of)),
        ("oneOf", branches(&rules.one_of)),
        ("not", rules.not.as_ref().map(|not| written(not, false, meta_fields))),
    ];
    entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Without a fraction that is none.
fn number(number: f64) -> Value {
    let mut value = Value::from(number);
    plain_numbers(&mut value);
    value
}

fn rule(rule: &Rule) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| json!(text));
    let entries = [
        ("rule", Some(json!(rule.rule))),
        ("message", text(&rule.message)),
        ("messageExpression", text(&rule.message_expression)),
        ("reason", rule.reason.as_deref().and_then(text)),
        ("fieldPath", text(&rule.field_path)),
        ("optionalOldSelf", rule.optional_old_self.map(Value::from)),
    ];
    let entries = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
    Value::Object(entries.collect())
}
