//! Types as OpenAPI schemas: one definition for each named type, with Kubernetes' extensions for merging.
//!
//! Corresponds to k8s.io/kube-openapi/pkg/common and to the conversion of its v3 definitions to v2.

use super::dialect::Dialect;
use super::{custom_types, type_names};
use proto::gvk::Gvk;
use proto::schema::builtin::{INT_OR_STRING, LIST_META, MICRO_TIME, QUANTITY, TIME};
use proto::schema::structural::form;
use proto::schema::{Properties, Schema, Shape, TypeRef, builtin_type};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The definitions of the requested types and of all types that they refer to.
pub struct Definitions<'a> {
    dialect: Dialect,
    kinds: &'a BTreeMap<String, Vec<Gvk>>,
    done: BTreeMap<String, Value>,
    waiting: Vec<TypeRef>,
}

impl<'a> Definitions<'a> {
    pub fn new(dialect: Dialect, kinds: &'a BTreeMap<String, Vec<Gvk>>) -> Self {
        Self { dialect, kinds, done: BTreeMap::new(), waiting: Vec::new() }
    }

    /// Adds a type and the types that it refers to.
    pub fn add(&mut self, target: &TypeRef) {
        self.waiting.push(target.clone());
        while let Some(target) = self.waiting.pop() {
            if self.done.contains_key(&*target.name) {
                continue;
            }
            self.done.insert(target.name.to_string(), Value::Null);
            let mut definition = match target.structural() {
                Some(structural) => {
                    let fields = form::meta_fields().map(|(name, field)| (name.to_owned(), self.schema(&field)));
                    custom_types::written(structural, self.dialect, &fields.into_iter().collect())
                }
                None => self.inline(target.schema()),
            };
            self.name_kinds(&target.name, &mut definition);
            self.done.insert(target.name.to_string(), definition);
        }
    }

    /// Adds the list type of a type.
    pub fn add_list(&mut self, item: &TypeRef, kind: &str) {
        self.add(item);
        self.add(&builtin_type(LIST_META));
        let text = |description: &str| json!({"type": "string", "description": description});
        let mut definition = json!({
            "description": format!("{kind}List is a list of {kind}"),
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": text("The version of this representation of an object."),
                "items": {"type": "array", "description": "The objects.", "items": self.bare_reference(&item.name)},
                "kind": text("The kind of this object: what it represents."),
                "metadata": self.reference(LIST_META, &mut Map::from_iter([("description".to_owned(), json!("Standard list metadata."))])),
            },
        });
        let name = type_names::list_of(&item.name);
        self.name_kinds(&name, &mut definition);
        self.done.insert(name, definition);
    }

    pub fn finish(self) -> Map<String, Value> {
        self.done.into_iter().collect()
    }

    /// Returns `{"$ref": …}`.
    pub fn bare_reference(&self, name: &str) -> Value {
        bare_reference(self.dialect, name)
    }

    fn name_kinds(&self, name: &str, definition: &mut Value) {
        if let Some(gvks) = self.kinds.get(name) {
            definition["x-kubernetes-group-version-kind"] = gvks.iter().map(gvk_value).collect();
        }
    }

    /// Returns a reference with further members. Version 3 permits none beside `$ref`, so there it becomes an `allOf`.
    fn reference(&self, name: &str, companions: &mut Map<String, Value>) -> Value {
        let reference = self.bare_reference(name);
        let mut written = std::mem::take(companions);
        match self.dialect {
            Dialect::V3 if written.is_empty() => return reference,
            Dialect::V3 => written.insert("allOf".into(), json!([reference])),
            Dialect::V2 => {
                written.remove("default");
                written.insert("$ref".into(), reference["$ref"].clone())
            }
        };
        Value::Object(written)
    }

    /// Writes a nested schema: as a reference if it has a definition of its own.
    fn schema(&mut self, schema: &Schema) -> Value {
        let Some(name) = referred(&schema.shape) else { return self.inline(schema) };
        self.waiting.push(builtin_or(name, &schema.shape));
        let mut companions = annotations(schema, self.dialect);
        self.reference(name, &mut companions)
    }

    fn inline(&mut self, schema: &Schema) -> Value {
        let mut written = annotations(schema, self.dialect);
        if !schema.format.is_empty() {
            written.insert("format".into(), json!(&*schema.format));
        }
        if !schema.allowed.is_empty() {
            written.insert("enum".into(), json!(schema.allowed));
        }
        self.shape(&schema.shape, &mut written);
        Value::Object(written)
    }

    fn shape(&mut self, shape: &Shape, written: &mut Map<String, Value>) {
        let mut typed = |name: &str| drop(written.insert("type".into(), json!(name)));
        match shape {
            Shape::Object(properties) => {
                typed("object");
                self.properties(properties, written);
            }
            Shape::Map(values) => {
                typed("object");
                let values = self.schema(values);
                written.insert("additionalProperties".into(), values);
            }
            Shape::List(items) => {
                typed("array");
                let items = self.schema(items);
                written.insert("items".into(), items);
            }
            Shape::String | Shape::Time | Shape::MicroTime => typed("string"),
            Shape::Integer => typed("integer"),
            Shape::Number => typed("number"),
            Shape::Boolean => typed("boolean"),
            Shape::IntOrString if self.dialect == Dialect::V3 => {
                written.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
                written.insert("format".into(), json!("int-or-string"));
            }
            Shape::IntOrString => {
                typed("string");
                written.insert("format".into(), json!("int-or-string"));
            }
            Shape::Quantity if self.dialect == Dialect::V3 => {
                written.insert("oneOf".into(), json!([{"type": "string"}, {"type": "number"}]));
            }
            Shape::Quantity => typed("string"),
            Shape::Any | Shape::Ref(_) => {}
        }
    }

    fn properties(&mut self, properties: &Properties, written: &mut Map<String, Value>) {
        if !properties.fields.is_empty() {
            let fields = properties.fields.iter().map(|(name, field)| (name.to_string(), self.schema(field)));
            written.insert("properties".into(), Value::Object(fields.collect()));
        }
        if !properties.required.is_empty() {
            let required: Vec<&str> = properties.required.iter().map(|name| &**name).collect();
            written.insert("required".into(), json!(required));
        }
        if properties.preserve_unknown && !properties.fields.is_empty() {
            written.insert("x-kubernetes-preserve-unknown-fields".into(), json!(true));
        }
    }
}

/// Returns `{"group": …, "kind": …, "version": …}`.
pub fn gvk_value(gvk: &Gvk) -> Value {
    json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version})
}

pub fn bare_reference(dialect: Dialect, name: &str) -> Value {
    match dialect {
        Dialect::V2 => json!({"$ref": format!("#/definitions/{name}")}),
        Dialect::V3 => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}

/// Returns the content of a custom resource's type, for the fingerprint of a document.
pub fn fingerprint(target: &TypeRef) -> String {
    let kinds = BTreeMap::new();
    let mut definitions = Definitions::new(Dialect::V3, &kinds);
    definitions.add(target);
    Value::Object(definitions.finish()).to_string()
}

/// Returns the name of the definition, for a shape that has one.
fn referred(shape: &Shape) -> Option<&str> {
    match shape {
        Shape::Ref(target) => Some(&target.name),
        Shape::Quantity => Some(QUANTITY),
        Shape::IntOrString => Some(INT_OR_STRING),
        Shape::Time => Some(TIME),
        Shape::MicroTime => Some(MICRO_TIME),
        _ => None,
    }
}

fn builtin_or(name: &str, shape: &Shape) -> TypeRef {
    match shape {
        Shape::Ref(target) => target.clone(),
        _ => builtin_type(name),
    }
}

/// Returns the members that describe a schema, as opposed to its shape.
fn annotations(schema: &Schema, dialect: Dialect) -> Map<String, Value> {
    let mut written = Map::new();
    if !schema.description.is_empty() {
        written.insert("description".into(), json!(&*schema.description));
    }
    if let Some(default) = &schema.default {
        written.insert("default".into(), default.clone());
    }
    if schema.nullable && dialect == Dialect::V3 {
        written.insert("nullable".into(), json!(true));
    }
    extensions(schema, &mut written);
    written
}

fn extensions(schema: &Schema, written: &mut Map<String, Value>) {
    let merge = &schema.merge;
    if let Some(list_type) = merge.list_type {
        written.insert("x-kubernetes-list-type".into(), json!(custom_types::list_type_name(list_type)));
    }
    if !merge.map_keys.is_empty() {
        let keys: Vec<&str> = merge.map_keys.iter().map(|key| &**key).collect();
        written.insert("x-kubernetes-list-map-keys".into(), json!(keys));
    }
    // A type that a field refers to carries its own extensions.
    if merge.atomic_map && !matches!(schema.shape, Shape::Ref(_)) {
        written.insert("x-kubernetes-map-type".into(), json!("atomic"));
    }
    let strategy = merge.patch_strategy;
    let words = [(strategy.merge, "merge"), (strategy.retain_keys, "retainKeys"), (strategy.replace, "replace")];
    let words: Vec<&str> = words.into_iter().filter(|(set, _)| *set).map(|(_, word)| word).collect();
    if !words.is_empty() {
        written.insert("x-kubernetes-patch-strategy".into(), json!(words.join(",")));
    }
    if let Some(key) = &merge.patch_merge_key {
        written.insert("x-kubernetes-patch-merge-key".into(), json!(&**key));
    }
}
