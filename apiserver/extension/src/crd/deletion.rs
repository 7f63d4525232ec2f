//! What the deletion of a CustomResourceDefinition begins with: a finalizer, and a condition that says so.
//!
//! Corresponds to PrepareForDelete of k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.

use super::conditions::{self, TERMINATING};
use super::definition::{CLEANUP_FINALIZER, Definition};
use serde_json::Value;
use strategy::object_meta;
use strategy::write_context::WriteContext;

/// Keeps the definition until its objects are gone, and says that they go now.
pub fn begin(context: &WriteContext<'_>, definition: &mut Value) {
    if !Definition(definition).has_cleanup_finalizer() {
        let mut finalizers = object_meta::finalizers(definition);
        finalizers.push(CLEANUP_FINALIZER.to_owned());
        object_meta::set_finalizers(definition, &finalizers);
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    let now = object_meta::time(context.now);
    let mut status = definition["status"].take();
    conditions::set(&mut status, TERMINATING, true, "InstanceDeletionPending", message, &now);
    definition["status"] = status;
}
