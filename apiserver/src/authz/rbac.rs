//! `RbacIndex`: who may do what, compiled from roles and bindings.
//!
//! Derived state: the same objects always give the same index, and it is built anew when any of them changes.
//! Corresponds to plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation.

use super::attributes::{Attributes, Decision};
use super::rules::Rule;
use crate::authn::UserInfo;
use proto::meta::label_selector;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The objects that an index is made of, each list in key order.
#[derive(Clone, Default)]
pub struct Policy {
    pub cluster_roles: Vec<Arc<Value>>,
    pub roles: Vec<Arc<Value>>,
    pub cluster_role_bindings: Vec<Arc<Value>>,
    pub role_bindings: Vec<Arc<Value>>,
}

/// One subject of one binding.
#[derive(Debug)]
struct Grant {
    /// `ClusterRoleBinding "admins" of ClusterRole "admin" to Group "ops"`, with the namespace where there is one.
    description: String,
    /// `Err` where the binding names a role that does not exist.
    rules: Result<Arc<[Rule]>, String>,
}

/// Grants by subject: `u:<user>` or `g:<group>`.
type Grants = BTreeMap<String, Vec<Grant>>;

#[derive(Debug, Default)]
pub struct RbacIndex {
    everywhere: Grants,
    by_namespace: BTreeMap<String, Grants>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl RbacIndex {
    pub fn of(policy: &Policy) -> Self {
        let cluster_roles = cluster_role_rules(&policy.cluster_roles);
        let roles: BTreeMap<(String, String), Arc<[Rule]>> = policy
            .roles
            .iter()
            .map(|role| {
                let key = (text(role, "/metadata/namespace").to_owned(), text(role, "/metadata/name").to_owned());
                (key, Rule::all_of(role).into())
            })
            .collect();
        let mut index = Self::default();
        for binding in &policy.cluster_role_bindings {
            let rules = role_of(binding, "", &cluster_roles, &roles);
            add_subjects(&mut index.everywhere, binding, "", &rules);
        }
        for binding in &policy.role_bindings {
            let namespace = text(binding, "/metadata/namespace");
            let rules = role_of(binding, namespace, &cluster_roles, &roles);
            add_subjects(index.by_namespace.entry(namespace.to_owned()).or_default(), binding, namespace, &rules);
        }
        index
    }

    /// Every grant to this user that holds in the namespace; cluster-wide ones first.
    fn grants<'a>(&'a self, user: &'a UserInfo, namespace: &str) -> impl Iterator<Item = &'a Grant> {
        let keys: Vec<String> =
            std::iter::once(format!("u:{}", user.name)).chain(user.groups.iter().map(|g| format!("g:{g}"))).collect();
        let scopes = [Some(&self.everywhere), self.by_namespace.get(namespace).filter(|_| !namespace.is_empty())];
        scopes
            .into_iter()
            .flatten()
            .flat_map(move |grants| keys.clone().into_iter().filter_map(move |key| grants.get(&key)).flatten())
    }

    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let mut errors = BTreeSet::new();
        for grant in self.grants(attributes.user, attributes.namespace) {
            match &grant.rules {
                Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                    return Decision::Allow(format!("RBAC: allowed by {}", grant.description));
                }
                Ok(_) => {}
                Err(why) => {
                    errors.insert(why.as_str());
                }
            }
        }
        Decision::NoOpinion(match errors.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", errors.into_iter().collect::<String>()),
            _ => format!("RBAC: [{}]", errors.into_iter().collect::<Vec<_>>().join(", ")),
        })
    }

    /// All rules that hold for a user in a namespace, and what could not be resolved.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in self.grants(user, namespace) {
            match &grant.rules {
                Ok(granted) => rules.extend(granted.iter().cloned()),
                Err(why) => errors.push(why.clone()),
            }
        }
        (rules, errors)
    }

    /// The rules behind a `roleRef`, for the check that a binding gives nothing away that its writer lacks.
    pub fn rules_of_role(policy: &Policy, namespace: &str, kind: &str, name: &str) -> Option<Vec<Rule>> {
        if kind == "ClusterRole" {
            return cluster_role_rules(&policy.cluster_roles).get(name).map(|rules| rules.to_vec());
        }
        let role = policy
            .roles
            .iter()
            .find(|r| text(r, "/metadata/namespace") == namespace && text(r, "/metadata/name") == name)?;
        Some(Rule::all_of(role))
    }
}

/// Rules by cluster role. A role with an aggregation rule has, beside its own, those of every role it selects.
fn cluster_role_rules(cluster_roles: &[Arc<Value>]) -> BTreeMap<String, Arc<[Rule]>> {
    let mut found = BTreeMap::new();
    for role in cluster_roles {
        let name = text(role, "/metadata/name").to_owned();
        found.insert(name.clone(), aggregated(role, &name, cluster_roles, &mut BTreeSet::new()).into());
    }
    found
}

fn aggregated(role: &Value, name: &str, all: &[Arc<Value>], seen: &mut BTreeSet<String>) -> Vec<Rule> {
    let mut rules = Rule::all_of(role);
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    let Some(selectors) = selectors else { return rules };
    seen.insert(name.to_owned());
    for other in all {
        let other_name = text(other, "/metadata/name");
        let selected = selectors.iter().any(|selector| selects(selector, other));
        if selected && !seen.contains(other_name) {
            for rule in aggregated(other, other_name, all, seen) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
    }
    seen.remove(name);
    rules
}

fn selects(selector: &Value, role: &Value) -> bool {
    let labels = role.pointer("/metadata/labels").and_then(Value::as_object);
    let labels: BTreeMap<String, String> = labels
        .map(|labels| labels.iter().filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned()))).collect())
        .unwrap_or_default();
    label_selector::from_value(Some(selector)).is_ok_and(|selector| selector.matches(&labels))
}

fn role_of(
    binding: &Value,
    namespace: &str,
    cluster_roles: &BTreeMap<String, Arc<[Rule]>>,
    roles: &BTreeMap<(String, String), Arc<[Rule]>>,
) -> Result<Arc<[Rule]>, String> {
    let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
    let found = match kind {
        "ClusterRole" => cluster_roles.get(name),
        _ => roles.get(&(namespace.to_owned(), name.to_owned())),
    };
    let resource = kind.to_lowercase();
    found.cloned().ok_or_else(|| format!("{resource}.rbac.authorization.k8s.io \"{name}\" not found"))
}

fn add_subjects(grants: &mut Grants, binding: &Value, namespace: &str, rules: &Result<Arc<[Rule]>, String>) {
    let subjects = binding.get("subjects").and_then(Value::as_array);
    for subject in subjects.into_iter().flatten() {
        let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
        let (key, shown) = match kind {
            "User" => (format!("u:{name}"), format!("User \"{name}\"")),
            "Group" => (format!("g:{name}"), format!("Group \"{name}\"")),
            "ServiceAccount" => {
                let of = Some(text(subject, "/namespace")).filter(|ns| !ns.is_empty()).unwrap_or(namespace);
                (format!("u:system:serviceaccount:{of}:{name}"), format!("ServiceAccount \"{name}/{of}\""))
            }
            _ => continue,
        };
        let binding_name = text(binding, "/metadata/name");
        let bound = match namespace {
            "" => format!("ClusterRoleBinding \"{binding_name}\""),
            namespace => format!("RoleBinding \"{binding_name}/{namespace}\""),
        };
        let (role_kind, role) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        let description = format!("{bound} of {role_kind} \"{role}\" to {shown}");
        grants.entry(key).or_default().push(Grant { description, rules: rules.clone() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn policy() -> Policy {
        let role = |name: &str, labels: Value, rules: Value, aggregation: Value| {
            Arc::new(
                json!({"metadata": {"name": name, "labels": labels}, "rules": rules, "aggregationRule": aggregation}),
            )
        };
        let rule = |verb: &str, resource: &str| json!([{"verbs": [verb], "apiGroups": [""], "resources": [resource]}]);
        Policy {
            cluster_roles: vec![
                role("parts", json!({"to-view": "true"}), rule("list", "pods"), Value::Null),
                role(
                    "view",
                    json!({}),
                    Value::Null,
                    json!({"clusterRoleSelectors": [{"matchLabels": {"to-view": "true"}}]}),
                ),
            ],
            roles: vec![Arc::new(
                json!({"metadata": {"name": "r", "namespace": "a"}, "rules": rule("get", "secrets")}),
            )],
            cluster_role_bindings: vec![Arc::new(json!({
                "metadata": {"name": "viewers"},
                "roleRef": {"kind": "ClusterRole", "name": "view"},
                "subjects": [{"kind": "Group", "name": "devs"}],
            }))],
            role_bindings: vec![
                Arc::new(json!({
                    "metadata": {"name": "b", "namespace": "a"},
                    "roleRef": {"kind": "Role", "name": "r"},
                    "subjects": [{"kind": "ServiceAccount", "name": "bot"}],
                })),
                Arc::new(json!({
                    "metadata": {"name": "dangling", "namespace": "a"},
                    "roleRef": {"kind": "Role", "name": "gone"},
                    "subjects": [{"kind": "User", "name": "eve"}],
                })),
            ],
        }
    }

    #[test]
    fn bindings_grant_in_their_scope() {
        let index = RbacIndex::of(&policy());
        let dev = UserInfo::new("ann", &["devs"]);
        let bot = UserInfo::new("system:serviceaccount:a:bot", &[]);
        let ask = |user: &UserInfo, verb: &str, resource: &str, namespace: &str| {
            index.authorize(&Attributes { namespace, ..Attributes::of_resource(user, verb, "", resource) })
        };
        assert_eq!(
            ask(&dev, "list", "pods", "b"),
            Decision::Allow(
                r#"RBAC: allowed by ClusterRoleBinding "viewers" of ClusterRole "view" to Group "devs""#.into()
            )
        );
        assert_eq!(ask(&dev, "get", "pods", "b"), Decision::NoOpinion(String::new()));
        assert!(matches!(ask(&bot, "get", "secrets", "a"), Decision::Allow(_)));
        assert!(matches!(ask(&bot, "get", "secrets", "b"), Decision::NoOpinion(_)));
        assert!(matches!(ask(&bot, "get", "secrets", ""), Decision::NoOpinion(_)));
    }

    #[test]
    fn a_role_that_is_missing_is_named() {
        let index = RbacIndex::of(&policy());
        let eve = UserInfo::new("eve", &[]);
        let attributes = Attributes { namespace: "a", ..Attributes::of_resource(&eve, "get", "", "pods") };
        let expected = "RBAC: role.rbac.authorization.k8s.io \"gone\" not found";
        assert_eq!(index.authorize(&attributes), Decision::NoOpinion(expected.into()));
    }
}
