//! Adds a finalizer to an object, which is kept by it while it is in use.
//!
//! Corresponds to what plugin/pkg/admission/storage/storageobjectinuseprotection and
//! plugin/pkg/admission/podgroupprotection do to a new object.

use crate::Attributes;
use crate::plugins::pod_parts::items;
use serde_json::{Value, json};

/// Adds the finalizer, unless the object has it already.
pub fn hold(attributes: &mut Attributes<'_>, finalizer: &str) {
    let Some(object) = attributes.object.as_deref_mut() else { return };
    if items(object, "/metadata/finalizers").all(|there| there != finalizer) {
        let finalizers = &mut object["metadata"]["finalizers"];
        let mut all = finalizers.as_array().cloned().unwrap_or_default();
        all.push(json!(finalizer));
        *finalizers = Value::Array(all);
    }
}
