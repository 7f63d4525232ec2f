//! `Rule`: operations, API groups, versions and resources that a webhook or policy selects.
//!
//! Corresponds to RuleWithOperations and k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules.

use crate::{Attributes, Operation};
use proto::resources::Served;
use serde_json::Value;

const ANY: &str = "*";

/// One of `resourceRules` or `rules`.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resources with their subresources: `*` matches objects without subresources, `*/*` matches everything.
    resources: Vec<(String, String)>,
    scope: RuleScope,
    /// `resourceNames`; empty matches all. Only policies have them.
    names: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum RuleScope {
    Any,
    Cluster,
    Namespaced,
    /// Matches nothing.
    Unknown,
}

/// The request in one version of its resource, which rules are matched with.
#[derive(Clone, Copy, Debug)]
pub struct Requested<'a> {
    pub operation: Operation,
    pub served: &'a Served,
    pub subresource: &'a str,
    /// False for Namespaces themselves.
    pub is_namespaced: bool,
    pub name: &'a str,
}

impl<'a> Requested<'a> {
    pub fn of(attributes: &'a Attributes<'_>, served: &'a Served) -> Self {
        Self {
            operation: attributes.operation,
            served,
            subresource: attributes.subresource,
            is_namespaced: !attributes.namespace.is_empty(),
            name: attributes.object_name(),
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn holds(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ANY || item == wanted)
}

impl Rule {
    pub fn read(value: &Value) -> Self {
        let parts = |resource: String| match resource.split_once('/') {
            Some((resource, subresource)) => (resource.to_owned(), subresource.to_owned()),
            None => (resource, String::new()),
        };
        Self {
            operations: texts(&value["operations"]),
            groups: texts(&value["apiGroups"]),
            versions: texts(&value["apiVersions"]),
            resources: texts(&value["resources"]).into_iter().map(parts).collect(),
            scope: match value["scope"].as_str() {
                None | Some(ANY) => RuleScope::Any,
                Some("Cluster") => RuleScope::Cluster,
                Some("Namespaced") => RuleScope::Namespaced,
                Some(_) => RuleScope::Unknown,
            },
            names: texts(&value["resourceNames"]),
        }
    }

    pub fn matches(&self, requested: &Requested<'_>) -> bool {
        let Requested { operation, served, subresource, is_namespaced, name } = *requested;
        let in_scope = match self.scope {
            RuleScope::Any => true,
            RuleScope::Cluster => !is_namespaced,
            RuleScope::Namespaced => is_namespaced,
            RuleScope::Unknown => false,
        };
        let is_one = |wanted: &str, given: &str| wanted == ANY || wanted == given;
        let of_resource =
            |(wanted, sub): &(String, String)| is_one(wanted, &served.resource) && is_one(sub, subresource);
        in_scope
            && holds(&self.operations, operation.as_str())
            && holds(&self.groups, &served.group)
            && holds(&self.versions, &served.version)
            && self.resources.iter().any(of_resource)
            && (self.names.is_empty() || self.names.iter().any(|known| known == name))
    }
}
