//! Marks a CustomResourceDefinition for deletion: sets a finalizer and the condition `Terminating`.
//!
//! Corresponds to PrepareForDelete of k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.

use super::conditions::{self, TERMINATING};
use super::definition::{CLEANUP_FINALIZER, Definition};
use serde_json::Value;
use strategy::object_meta;
use strategy::write_context::WriteContext;

/// Adds the finalizer that keeps the definition until its objects are gone, and sets the condition `Terminating`.
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
