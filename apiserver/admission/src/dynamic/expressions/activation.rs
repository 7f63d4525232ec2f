//! `Activation`: the values of all variables that expressions can read, in one request.
//!
//! Corresponds to the activation of k8s.io/apiserver/pkg/admission/plugin/cel, and to CreateAdmissionRequest there.

use super::authorizer::{self, Authorizer, Resource};
use super::values::value;
use crate::Attributes;
use crate::dynamic::admission_request::request;
use cel::Value;
use cel::admission::Name;
use proto::resources::Served;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// The objects of a request, in the version that a rule matched, which may differ from the request's.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    pub served: &'a Served,
    /// Null for a deletion.
    pub object: &'a Json,
    /// Null for a creation.
    pub old_object: &'a Json,
}

impl<'a> Subject<'a> {
    /// Returns the objects in the request's version.
    pub fn of(attributes: &'a Attributes<'_>) -> Self {
        Self { served: attributes.served, object: attributes.new_object(), old_object: attributes.old() }
    }
}

/// The values of one request, which are cheap to clone.
#[derive(Clone, Debug)]
pub struct Activation {
    object: Value,
    old_object: Value,
    namespace: Value,
    request: Value,
    params: Value,
    authorizer: Value,
    request_resource: Value,
}

impl Activation {
    pub fn of(attributes: &Attributes<'_>, subject: Subject<'_>, authorizer: &Arc<dyn Authorizer>) -> Self {
        let user = Arc::new(attributes.user.clone());
        let resource = Resource {
            group: attributes.served.group.to_string(),
            resource: attributes.served.resource.to_string(),
            subresource: attributes.subresource.to_owned(),
            namespace: attributes.namespace_name().to_owned(),
            name: attributes.object_name().to_owned(),
            ..Resource::default()
        };
        Self {
            object: value(subject.object),
            old_object: value(subject.old_object),
            namespace: Value::Null,
            request: value(&request(attributes, subject.served)),
            params: Value::Null,
            authorizer: authorizer::authorizer(authorizer, &user),
            request_resource: authorizer::request_resource(authorizer, &user, resource),
        }
    }

    /// Sets `params`; null without parameters.
    pub fn with_params(&self, params: &Json) -> Self {
        Self { params: value(params), ..self.clone() }
    }

    /// Sets `namespaceObject`; null for cluster-scoped objects.
    pub fn with_namespace(&self, namespace: &Json) -> Self {
        Self { namespace: value(&shown_namespace(namespace)), ..self.clone() }
    }

    /// Sets `object`, after a mutation.
    pub fn with_object(&self, object: &Json) -> Self {
        Self { object: value(object), ..self.clone() }
    }

    /// Returns the values of `names`. `variables` contains the variables of the policy that are needed.
    pub fn values(&self, names: &[Name], variables: &Value) -> Vec<Value> {
        let of = |name: &Name| match name {
            Name::Object => &self.object,
            Name::OldObject => &self.old_object,
            Name::Namespace => &self.namespace,
            Name::Request => &self.request,
            Name::Params => &self.params,
            Name::Authorizer => &self.authorizer,
            Name::RequestResource => &self.request_resource,
            Name::Variables => variables,
        };
        names.iter().map(|name| of(name).clone()).collect()
    }
}

/// Keeps the declared fields of a namespace.
fn shown_namespace(namespace: &Json) -> Json {
    if namespace.is_null() {
        return Json::Null;
    }
    let only = |part: &str, fields: &[&str]| -> Json {
        let of = namespace[part].as_object().into_iter().flatten();
        let kept = of.filter(|(field, _)| fields.contains(&field.as_str()));
        Json::Object(kept.map(|(field, value)| (field.clone(), value.clone())).collect::<Map<_, _>>())
    };
    let metadata = [
        "name",
        "generateName",
        "namespace",
        "labels",
        "annotations",
        "uid",
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "resourceVersion",
        "finalizers",
    ];
    json!({
        "metadata": only("metadata", &metadata),
        "spec": only("spec", &["finalizers"]),
        "status": only("status", &["conditions", "phase"]),
    })
}
