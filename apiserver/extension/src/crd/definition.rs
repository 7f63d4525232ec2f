//! `Definition`: reads the fields of a CustomResourceDefinition.
//!
//! Corresponds to the helpers of k8s.io/apiextensions-apiserver/pkg/apis/apiextensions.

use serde_json::Value;

pub const GROUP: &str = "apiextensions.k8s.io";
pub const RESOURCE: &str = "customresourcedefinitions";
/// Annotation with the approval of a definition in one of Kubernetes' own groups.
pub const APPROVED: &str = "api-approved.kubernetes.io";
/// Finalizer that keeps a deleted definition until its objects are gone.
pub const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

static NOTHING: Value = Value::Null;

/// A view of a CustomResourceDefinition in JSON. An absent field reads as empty.
#[derive(Clone, Copy, Debug)]
pub struct Definition<'a>(pub &'a Value);

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The names of a definition: `spec.names`, or `status.acceptedNames`.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a>(pub &'a Value);

impl<'a> Names<'a> {
    pub fn plural(&self) -> &'a str {
        text(self.0, "plural")
    }

    pub fn singular(&self) -> &'a str {
        text(self.0, "singular")
    }

    pub fn kind(&self) -> &'a str {
        text(self.0, "kind")
    }

    pub fn list_kind(&self) -> &'a str {
        text(self.0, "listKind")
    }

    pub fn list(&self, key: &str) -> Vec<&'a str> {
        self.0.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

/// One entry of `spec.versions`.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a>(pub &'a Value);

impl<'a> Version<'a> {
    pub fn name(&self) -> &'a str {
        text(self.0, "name")
    }

    pub fn flag(&self, key: &str) -> bool {
        self.0.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub fn is_served(&self) -> bool {
        self.flag("served")
    }

    pub fn is_storage(&self) -> bool {
        self.flag("storage")
    }

    pub fn schema(&self) -> &'a Value {
        self.0.pointer("/schema/openAPIV3Schema").unwrap_or(&NOTHING)
    }

    /// Returns a field of the version; null when it is absent.
    pub fn part(&self, key: &str) -> &'a Value {
        self.0.get(key).unwrap_or(&NOTHING)
    }

    pub fn items(&self, key: &str) -> &'a [Value] {
        self.part(key).as_array().map_or(&[], Vec::as_slice)
    }
}

impl<'a> Definition<'a> {
    fn at(&self, pointer: &str) -> &'a Value {
        self.0.pointer(pointer).unwrap_or(&NOTHING)
    }

    pub fn name(&self) -> &'a str {
        text(self.at("/metadata"), "name")
    }

    pub fn uid(&self) -> &'a str {
        text(self.at("/metadata"), "uid")
    }

    pub fn group(&self) -> &'a str {
        text(self.at("/spec"), "group")
    }

    pub fn is_namespaced(&self) -> bool {
        text(self.at("/spec"), "scope") == "Namespaced"
    }

    pub fn names(&self) -> Names<'a> {
        Names(self.at("/spec/names"))
    }

    pub fn accepted_names(&self) -> Names<'a> {
        Names(self.at("/status/acceptedNames"))
    }

    pub fn versions(&self) -> Vec<Version<'a>> {
        self.at("/spec/versions").as_array().into_iter().flatten().map(Version).collect()
    }

    pub fn conversion(&self) -> &'a str {
        text(self.at("/spec/conversion"), "strategy")
    }

    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.at("/metadata/annotations").get(key).and_then(Value::as_str)
    }

    pub fn conditions(&self) -> &'a [Value] {
        self.at("/status/conditions").as_array().map_or(&[], Vec::as_slice)
    }

    pub fn condition(&self, kind: &str) -> Option<&'a Value> {
        self.conditions().iter().find(|condition| text(condition, "type") == kind)
    }

    pub fn is_true(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| text(condition, "status") == "True")
    }

    pub fn stored_versions(&self) -> Vec<&'a str> {
        self.at("/status/storedVersions").as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub fn is_deleting(&self) -> bool {
        self.at("/metadata").get("deletionTimestamp").is_some_and(|time| !time.is_null())
    }

    pub fn has_cleanup_finalizer(&self) -> bool {
        let finalizers = self.at("/metadata/finalizers").as_array().into_iter().flatten();
        finalizers.filter_map(Value::as_str).any(|finalizer| finalizer == CLEANUP_FINALIZER)
    }
}

/// Tells whether a group belongs to Kubernetes. A definition in such a group needs an approval.
pub fn is_protected_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|owner| group == *owner || group.ends_with(&format!(".{owner}")))
}
