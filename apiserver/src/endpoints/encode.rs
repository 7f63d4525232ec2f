//! The bytes of a stored object in the version that was asked for, whole or its metadata alone.
//!
//! In the storage version nothing is encoded anew: the answer is made of slices of the stored bytes.

use bytes::Bytes;
use proto::Object;
use proto::resources::Target;
use proto::wire::json;

/// An object in the request's version, as slices of JSON.
pub fn wire(target: &Target, object: &Object, has_revision: bool) -> Vec<Bytes> {
    if target.is_storage_version() {
        return if has_revision { object.to_wire().to_vec() } else { vec![object.bytes().clone()] };
    }
    let mut value = target.served().from_storage(object.to_value());
    if !has_revision && let Some(meta) = value["metadata"].as_object_mut() {
        meta.remove("resourceVersion");
    }
    vec![Bytes::from(json::to_canonical(&value))]
}

/// `{"kind":…,"apiVersion":…,"metadata":…}` of an object, cut out of its bytes.
pub fn metadata(object: &Object, api_version: &str, kind: &str) -> Bytes {
    let wire = object.to_wire_bytes();
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",\"metadata\":").as_bytes());
    match json::member_range(&wire, 0, "metadata") {
        Some(range) => out.extend_from_slice(&wire[range]),
        None => out.extend_from_slice(b"{}"),
    }
    out.push(b'}');
    Bytes::from(out)
}
