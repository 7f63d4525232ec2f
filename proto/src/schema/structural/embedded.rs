//! Embedded resources: objects inside an object, which `x-kubernetes-embedded-resource` marks.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.

use super::{Structural, walk};
use serde_json::Value;

/// Calls `visit` with the path and the value of every embedded resource.
pub fn each<'v>(schema: &Structural, value: &'v Value, visit: &mut dyn FnMut(&str, &'v Value)) {
    walk(schema, value, "", &mut |schema, value, path| {
        if schema.embedded_resource && value.is_object() {
            visit(path, value);
        }
    });
}
