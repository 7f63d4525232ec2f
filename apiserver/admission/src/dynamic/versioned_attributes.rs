//! `VersionedAttributes`: the objects of a write in the version that a webhook or policy matched.
//!
//! Corresponds to VersionedAttributes of k8s.io/apiserver/pkg/admission.

use crate::dynamic::admission_request::{is_of_resource, kind_of};
use crate::{Attributes, Versions};
use proto::Status;
use proto::schema::decode::decode;
use serde_json::Value;
use std::borrow::Cow;

pub struct VersionedAttributes<'a> {
    /// Index of the version among those of the resource.
    pub place: usize,
    /// Null for a deletion.
    pub object: Cow<'a, Value>,
    /// Null for a creation.
    pub old_object: Cow<'a, Value>,
}

/// Converts an object to another version; null stays null.
async fn converted(versions: &dyn Versions, object: &Value, from: usize, to: usize) -> Result<Value, Status> {
    match object {
        Value::Null => Ok(Value::Null),
        object => versions.convert(object.clone(), from, to).await.map_err(|error| Status::internal(error.message)),
    }
}

impl<'a> VersionedAttributes<'a> {
    pub async fn of(attributes: &'a Attributes<'_>, place: usize) -> Result<Self, Status> {
        let versions = attributes.versions;
        let requested = versions.requested();
        let (object, old) = (attributes.new_object(), attributes.old());
        if place == requested || !is_of_resource(attributes.served, attributes.subresource) {
            return Ok(Self { place, object: Cow::Borrowed(object), old_object: Cow::Borrowed(old) });
        }
        Ok(Self {
            place,
            object: Cow::Owned(converted(versions, object, requested, place).await?),
            old_object: Cow::Owned(converted(versions, old, requested, place).await?),
        })
    }
}

/// Decodes an object that a webhook or policy changed, as if a client had sent it: checks its kind and drops unknown fields.
pub fn decoded(attributes: &Attributes<'_>, place: usize, object: Value) -> Result<Value, Status> {
    let served = &attributes.versions.all()[place];
    let kind = kind_of(served, attributes.subresource);
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    if (text("apiVersion"), text("kind")) != (kind.api_version().as_str(), kind.kind.as_str()) {
        let got = format!("{}, Kind={}", text("apiVersion"), text("kind"));
        return Err(Status::internal(format!("{got} is not {}, Kind={}", kind.api_version(), kind.kind)));
    }
    if !is_of_resource(served, attributes.subresource) {
        return Ok(object);
    }
    let mut decoded = decode(&served.schema, object).map_err(|error| Status::internal(error.0))?.value;
    decoded["apiVersion"] = Value::String(kind.api_version());
    decoded["kind"] = Value::String(kind.kind);
    Ok(decoded)
}

/// Converts a changed object back to the version of the request.
pub async fn restored(attributes: &Attributes<'_>, place: usize, object: Value) -> Result<Value, Status> {
    let requested = attributes.versions.requested();
    if place == requested || !is_of_resource(attributes.served, attributes.subresource) {
        return Ok(object);
    }
    converted(attributes.versions, &object, place, requested).await
}
