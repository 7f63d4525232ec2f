//! Selectable fields: the paths that a field selector may name for a kind, and their values.
//!
//! Corresponds to the AddFieldLabelConversionFunc registrations of pkg/apis and the ToSelectableFields of
//! pkg/registry.

use super::{Served, Text};
use crate::meta::field_selector::FieldSelector;
use serde_json::Value;

#[derive(Clone, Debug)]
pub struct SelectableField {
    /// The path in this version: `regarding.kind`.
    pub path: Text,
    /// The name in an object's index, the same for all versions of a row: `involvedObject.kind`.
    pub key: Text,
    /// Computes the value from an object of the storage version. `None` for the value at `key`.
    pub value: Option<fn(&Value) -> String>,
}

/// The wording of the error for a path that is not selectable. Kubernetes words it differently for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownField {
    /// `"spec.x" is not a known field selector: only "metadata.name", "metadata.namespace"`
    OnlyMetadata,
    /// `field label not supported: spec.x`
    Plain,
    /// `field label "spec.x" not supported for Job`
    Quoted,
    /// `field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.x`
    ForGvk,
    /// `field label not supported for appsv1.StatefulSet: spec.x`
    ForGoType,
}

impl SelectableField {
    /// A field whose value is the value at its path.
    pub const fn at(path: &'static str) -> Self {
        Self { path: Text::Borrowed(path), key: Text::Borrowed(path), value: None }
    }

    /// A field whose value is computed.
    pub const fn with(path: &'static str, value: fn(&Value) -> String) -> Self {
        Self { path: Text::Borrowed(path), key: Text::Borrowed(path), value: Some(value) }
    }

    /// Another path for the field with index key `key`.
    pub const fn alias(path: &'static str, key: &'static str) -> Self {
        Self { path: Text::Borrowed(path), key: Text::Borrowed(key), value: None }
    }

    /// Returns the value from an object of the storage version, empty if absent.
    pub fn read(&self, object: &Value) -> String {
        match self.value {
            Some(value) => value(object),
            None => text_at(object, &self.key),
        }
    }
}

/// Returns the value at a dotted path as text, the form that field selectors compare.
pub fn text_at(object: &Value, path: &str) -> String {
    let found = path.split('.').try_fold(object, |at, segment| at.get(segment));
    match found {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

impl Served {
    /// Returns the index key for a path of a field selector. The error is worded as Kubernetes words it.
    pub fn field_key(&self, path: &str, namespaced: bool) -> Result<Text, String> {
        match path {
            "metadata.name" => return Ok("metadata.name".into()),
            // A cluster-scoped kind with its own conversion does not accept the namespace.
            "metadata.namespace" if namespaced || self.unknown_field == UnknownField::OnlyMetadata => {
                return Ok("metadata.namespace".into());
            }
            _ => {}
        }
        match self.selectable_fields.iter().find(|field| field.path == path) {
            Some(field) => Ok(field.key.clone()),
            None => Err(self.unknown_field.refusal(self, path)),
        }
    }
}

impl FieldSelector {
    /// Replaces every path by its index key. Fails with Kubernetes' error for the first path that is not selectable.
    pub fn resolve(self, served: &Served, namespaced: bool) -> Result<Self, String> {
        self.with_paths(|path| served.field_key(path, namespaced))
    }
}

impl UnknownField {
    fn refusal(self, served: &Served, path: &str) -> String {
        match self {
            Self::OnlyMetadata => {
                format!("{path:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
            }
            Self::Plain => format!("field label not supported: {path}"),
            Self::Quoted => format!("field label {path:?} not supported for {}", served.kind),
            Self::ForGvk => format!("field label not supported for {}: {path}", served.gvk()),
            Self::ForGoType => {
                let kind = &served.kind;
                format!("field label not supported for {}{}.{kind}: {path}", served.group, served.version)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gvk::Gvr;
    use crate::resources::Catalogue;
    use serde_json::json;

    fn key(group: &str, version: &str, resource: &str, path: &str) -> Result<Text, String> {
        let target = Catalogue::builtin().by_gvr(&Gvr::new(group, version, resource)).unwrap();
        target.served().field_key(path, target.row.is_namespaced())
    }

    #[test]
    fn paths_are_found_or_refused_in_the_words_of_their_kind() {
        let cases = [
            ("", "v1", "pods", "spec.nodeName", Ok("spec.nodeName")),
            ("", "v1", "pods", "spec.host", Ok("spec.nodeName")),
            ("", "v1", "pods", "spec.priority", Err("field label not supported: spec.priority")),
            ("", "v1", "nodes", "metadata.namespace", Err("field label not supported: metadata.namespace")),
            ("", "v1", "namespaces", "name", Err("field label not supported: name")),
            ("", "v1", "persistentvolumes", "metadata.namespace", Ok("metadata.namespace")),
            ("events.k8s.io", "v1", "events", "regarding.kind", Ok("involvedObject.kind")),
            ("events.k8s.io", "v1", "events", "note", Err("field label not supported: note")),
            ("", "v1", "events", "count", Err("field label not supported: count")),
            ("batch", "v1", "jobs", "status.succeeded", Err("field label \"status.succeeded\" not supported for Job")),
            (
                "resource.k8s.io",
                "v1",
                "resourceslices",
                "spec.pool",
                Err("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: spec.pool"),
            ),
            ("apps", "v1", "statefulsets", "spec.x", Err("field label not supported for appsv1.StatefulSet: spec.x")),
            (
                "apps",
                "v1",
                "deployments",
                "spec.replicas",
                Err("\"spec.replicas\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\""),
            ),
        ];
        for (group, version, resource, path, expected) in cases {
            assert_eq!(
                key(group, version, resource, path),
                expected.map(Text::from).map_err(str::to_owned),
                "{resource} {path}"
            );
        }
    }

    #[test]
    fn selectors_of_another_version_are_resolved_to_index_keys() {
        let target = Catalogue::builtin().by_gvr(&Gvr::new("events.k8s.io", "v1", "events")).unwrap();
        let resolved = |text: &str| FieldSelector::parse(text).unwrap().resolve(target.served(), true);
        assert_eq!(resolved("regarding.name=p").unwrap().to_string(), "involvedObject.name=p");
        assert_eq!(resolved("note=x").unwrap_err(), "field label not supported: note");
    }

    #[test]
    fn values_have_their_kinds_defaults() {
        let fields = |resource: &str, object: Value| {
            let target = Catalogue::builtin().by_gvr(&Gvr::new("", "v1", resource)).unwrap();
            target.row.fields_of(&object)
        };
        let pod = fields("pods", json!({"spec":{"hostNetwork":true},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}));
        assert_eq!(pod["spec.hostNetwork"], "true");
        assert_eq!(pod["spec.nodeName"], "");
        assert_eq!(pod["status.podIP"], "10.0.0.1");
        assert_eq!(fields("pods", json!({}))["spec.hostNetwork"], "false");
        assert_eq!(fields("nodes", json!({}))["spec.unschedulable"], "false");
        assert_eq!(fields("replicationcontrollers", json!({}))["status.replicas"], "0");
        assert_eq!(fields("events", json!({"source":{},"reportingComponent":"c"}))["source"], "c");
    }
}
