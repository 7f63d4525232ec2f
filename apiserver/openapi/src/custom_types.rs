//! The schema of a custom resource: complete in version 3, and in version 2 reduced to what kubectl can handle.
//!
//! Corresponds to the conversion of structural schemas to OpenAPI in k8s.io/apiextensions-apiserver/pkg/apiserver/schema
//! and to pkg/controller/openapi/{builder,v2} there.

use super::dialect::Dialect;
use proto::schema::ListType;
use proto::schema::structural::{Additional, Rule, Structural, ValueRules, plain_numbers};
use serde_json::{Map, Value, json};

/// Writes the definition of a custom resource. `meta_fields` are those of every object, which a schema need not
/// declare.
pub fn written(schema: &Structural, dialect: Dialect, meta_fields: &Map<String, Value>) -> Value {
    let writer = Writer { dialect, meta_fields };
    match dialect {
        Dialect::V3 => writer.node(schema, true),
        // kubectl would report every undeclared field as an error if it saw any declared ones.
        Dialect::V2 if schema.preserve_unknown => json!({"type": "object"}),
        Dialect::V2 => {
            let mut simple = schema.clone();
            simplify(&mut simple);
            writer.node(&simple, true)
        }
    }
}

/// Removes what version 2 cannot express, and what kubectl misreads in it: types of values that may be null or
/// anything.
fn simplify(schema: &mut Structural) {
    let rules = &mut schema.value;
    (rules.all_of, rules.any_of, rules.one_of, rules.not) = (Vec::new(), Vec::new(), Vec::new(), None);
    let is_null_allowed = std::mem::take(&mut schema.nullable);
    if is_null_allowed || schema.preserve_unknown {
        schema.items = None;
        schema.properties.clear();
    }
    let is_vague =
        schema.types == ["array"] && schema.items.is_none() || schema.types == ["object"] && schema.preserve_unknown;
    if is_null_allowed || is_vague {
        schema.types.clear();
    }
    let properties = &schema.properties;
    schema.required.retain(|name| properties.get(name).is_none_or(|field| !field.nullable));
    if let Additional::Schema(values) = &mut schema.additional {
        if values.nullable {
            schema.required.clear();
        }
        simplify(values);
    }
    schema.items.iter_mut().for_each(|items| simplify(items));
    schema.properties.values_mut().for_each(simplify);
}

struct Writer<'a> {
    dialect: Dialect,
    meta_fields: &'a Map<String, Value>,
}

impl Writer<'_> {
    /// Writes a node with everything below it.
    fn node(&self, schema: &Structural, is_root: bool) -> Value {
        let mut written = self.value_rules(&schema.value);
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
        let is_object = schema.embedded_resource && !(self.dialect == Dialect::V2 && schema.preserve_unknown);
        let mut required: Vec<&str> = schema.required.iter().map(|name| &**name).collect();
        for name in ["kind", "apiVersion"].into_iter().filter(|_| is_object && !is_root) {
            if !required.contains(&name) {
                required.push(name);
            }
        }
        if !required.is_empty() {
            put("required", json!(required));
        }
        if let Some(items) = &schema.items {
            put("items", self.node(items, false));
        }
        match &schema.additional {
            Additional::None => {}
            Additional::Anything => put("additionalProperties", json!(true)),
            Additional::Schema(values) => put("additionalProperties", self.node(values, false)),
        }
        let own = schema.properties.iter().map(|(name, field)| (name.to_string(), self.node(field, false)));
        let mut properties: Map<String, Value> = own.collect();
        if is_root || is_object {
            properties.extend(self.meta_fields.clone());
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

    fn value_rules(&self, rules: &ValueRules) -> Map<String, Value> {
        let branches = |branches: &[Structural]| -> Option<Value> {
            (!branches.is_empty()).then(|| branches.iter().map(|branch| self.node(branch, false)).collect())
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
            ("not", rules.not.as_ref().map(|not| self.node(not, false))),
        ];
        entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
    }
}

pub fn list_type_name(list_type: ListType) -> &'static str {
    match list_type {
        ListType::Atomic => "atomic",
        ListType::Set => "set",
        ListType::Map => "map",
    }
}

/// Writes a number, without a fraction if it is whole.
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
