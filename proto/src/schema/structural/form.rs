//! Derives the merging form of a structural schema: the `Schema` that server-side apply and OpenAPI read.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder.

use super::{Additional, Structural};
use crate::schema::builtin::OBJECT_META;
use crate::schema::{ListType, Merge, Properties, Schema, Shape, TypeRef, builtin_type};
use serde_json::Value;
use std::sync::Arc;

const API_VERSION: &str = "Which version of the schema this object is written in, as group and version.";
const KIND: &str = "What kind of thing this object stands for.";
const METADATA: &str = "Standard metadata of the object.";

impl TypeRef {
    /// Builds the type of a custom resource. It always has `apiVersion`, `kind` and `metadata`.
    pub fn custom(name: &str, structural: Arc<Structural>) -> Self {
        let mut schema = structural.form();
        add_meta_fields(&mut schema);
        let mut target = Self::declared(name);
        target.structural = Some(structural);
        target.define(schema);
        target
    }
}

/// Returns the fields that every object has.
pub fn meta_fields() -> [(&'static str, Schema); 3] {
    let described = |shape: Shape, description: &str| Schema { description: description.into(), ..Schema::of(shape) };
    [
        ("apiVersion", described(Shape::String, API_VERSION)),
        ("kind", described(Shape::String, KIND)),
        ("metadata", described(Shape::Ref(builtin_type(OBJECT_META)), METADATA)),
    ]
}

fn add_meta_fields(schema: &mut Schema) {
    let Shape::Object(properties) = &mut schema.shape else { return };
    properties.fields.extend(meta_fields().map(|(name, field)| (name.into(), field)));
}

impl Structural {
    /// Returns this node in the form that describes built-in types.
    pub fn form(&self) -> Schema {
        let mut schema = Schema {
            description: self.description.clone(),
            allowed: self.value.allowed.clone(),
            default: self.default.clone(),
            nullable: self.nullable,
            format: self.value.format.as_str().into(),
            merge: self.merge(),
            ..Schema::of(self.shape())
        };
        if self.embedded_resource {
            add_meta_fields(&mut schema);
        }
        schema
    }

    fn shape(&self) -> Shape {
        if self.int_or_string {
            return Shape::IntOrString;
        }
        match self.types.first().copied() {
            Some("object") => self.object(),
            Some("array") => {
                let items = self.items.as_ref().map_or_else(|| Schema::of(Shape::Any), |items| items.form());
                Shape::List(Box::new(items))
            }
            Some("string") => Shape::String,
            Some("integer") => Shape::Integer,
            Some("number") => Shape::Number,
            Some("boolean") => Shape::Boolean,
            _ => Shape::Any,
        }
    }

    fn object(&self) -> Shape {
        match &self.additional {
            Additional::Schema(values) => return Shape::Map(Box::new(values.form())),
            Additional::Anything | Additional::None => {}
        }
        // Beside named properties, `additionalProperties: true` keeps other fields, which have no schema.
        let keeps_others = self.preserve_unknown || matches!(self.additional, Additional::Anything);
        if self.properties.is_empty() && keeps_others {
            return Shape::Map(Box::new(Schema::of(Shape::Any)));
        }
        Shape::Object(Properties {
            fields: self.properties.iter().map(|(name, property)| (name.clone(), property.form())).collect(),
            required: self.required.clone(),
            preserve_unknown: keeps_others,
            always: Vec::new(),
        })
    }

    fn merge(&self) -> Merge {
        let key_defaults = match (&self.list_type, &self.items) {
            (Some(ListType::Map), Some(items)) => self
                .list_map_keys
                .iter()
                .filter_map(|key| Some((key.clone(), items.properties.get(key)?.default.clone()?)))
                .collect::<Vec<(Arc<str>, Value)>>(),
            _ => Vec::new(),
        };
        Merge {
            list_type: self.list_type,
            map_keys: self.list_map_keys.clone(),
            key_defaults,
            atomic_map: self.atomic_map,
            ..Merge::default()
        }
    }
}
