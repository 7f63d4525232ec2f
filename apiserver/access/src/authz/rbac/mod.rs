//! `RbacIndex`: who may do what, compiled from roles and bindings.
//!
//! Derived state: the same objects always give the same index, whatever happened before, and a change costs its own size:
//! grants name their role, and rules are looked up when somebody asks. Corresponds to plugin/pkg/auth/authorizer/rbac and
//! pkg/registry/rbac/validation.

mod grant;
mod cluster_roles;

#[cfg(test)]
mod tests;

use super::attributes::{Attributes, Decision};
use super::rules::Rule;
use cluster_roles::ClusterRoles;
use grant::{Grant, Holder, RoleKind, RoleRef};
use imbl::{OrdMap, OrdSet};
use request::UserInfo;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One object that came (`before` is absent), changed, or went (`after` is absent).
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
}

/// More bindings of one user are not told of.
const MAX_TOLD: usize = 100;

/// What happened to the objects that an index is made of; each object at most once.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    pub cluster_roles: Vec<Change>,
    pub roles: Vec<Change>,
    pub cluster_role_bindings: Vec<Change>,
    pub role_bindings: Vec<Change>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RbacIndex {
    cluster_roles: ClusterRoles,
    /// By namespace and name.
    roles: OrdMap<(Arc<str>, Arc<str>), Arc<[Rule]>>,
    grants: OrdSet<Grant>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl RbacIndex {
    /// The index of the objects as they are after these changes.
    pub fn after(&self, changes: &Changes) -> Self {
        let mut next = self.clone();
        if !changes.cluster_roles.is_empty() {
            next.cluster_roles = self.cluster_roles.after(&changes.cluster_roles);
        }
        for change in &changes.roles {
            let Some(role) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let key = (text(role, "/metadata/namespace").into(), text(role, "/metadata/name").into());
            match &change.after {
                Some(role) => drop(next.roles.insert(key, Rule::all_of(role).into())),
                None => drop(next.roles.remove(&key)),
            }
        }
        for change in changes.cluster_role_bindings.iter().chain(&changes.role_bindings) {
            for grant in change.before.iter().flat_map(|binding| Grant::all_of(binding)) {
                next.grants.remove(&grant);
            }
            for grant in change.after.iter().flat_map(|binding| Grant::all_of(binding)) {
                next.grants.insert(grant);
            }
        }
        next
    }

    fn rules(&self, namespace: &Arc<str>, role: &RoleRef) -> Option<&Arc<[Rule]>> {
        match role.kind {
            RoleKind::ClusterRole => self.cluster_roles.rules(&role.name),
            RoleKind::Role => self.roles.get(&(namespace.clone(), role.name.clone())),
        }
    }

    pub fn authorize(&self, attributes: &Attributes<'_>) -> Decision {
        let mut missing = BTreeSet::new();
        for mut from in begins(attributes.user, attributes.namespace) {
            // Of all bindings to one role the first one speaks.
            while let Some(grant) = self.grants.range(from.clone()..).next().filter(|grant| grant.is_beside(&from)) {
                match self.rules(&grant.namespace, &grant.role) {
                    Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                        return Decision::Allow(format!("RBAC: allowed by {grant}"));
                    }
                    Some(_) => {}
                    None => drop(missing.insert(grant.role.not_found())),
                }
                from = grant.behind_role();
            }
        }
        Decision::NoOpinion(match missing.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", missing.into_iter().collect::<String>()),
            _ => format!("RBAC: [{}]", missing.into_iter().collect::<Vec<_>>().join(", ")),
        })
    }

    /// All rules that hold for a user in a namespace, and what could not be resolved.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in self.held(user, namespace) {
            match self.rules(&grant.namespace, &grant.role) {
                Some(granted) => rules.extend(granted.iter().cloned()),
                None => errors.push(grant.role.not_found()),
            }
        }
        (rules, errors)
    }

    /// Every grant to the user or one of his groups that holds in the namespace; cluster-wide ones first.
    fn held(&self, user: &UserInfo, namespace: &str) -> impl Iterator<Item = &Grant> {
        begins(user, namespace)
            .flat_map(|from| self.grants.range(from.clone()..).take_while(move |grant| grant.is_beside(&from)))
    }

    /// The rule by which `authorize` allows it, as it stands in a role.
    pub fn allowing_rule(&self, attributes: &Attributes<'_>) -> Option<String> {
        let held = self.held(attributes.user, attributes.namespace);
        let mut rules =
            held.filter_map(|grant| self.rules(&grant.namespace, &grant.role)).flat_map(|rules| rules.iter());
        rules.find(|rule| rule.allows(attributes)).map(|rule| rule.to_value().to_string())
    }

    /// The bindings that name the user or one of his groups and hold in the namespace; the first ones of very many.
    pub fn bound_to(&self, user: &UserInfo, namespace: &str) -> Vec<String> {
        self.held(user, namespace).take(MAX_TOLD).map(Grant::to_string).collect()
    }

    /// The rules behind a `roleRef`, for the check that a binding gives nothing away that its writer lacks.
    pub fn rules_of_role(&self, namespace: &str, kind: &str, name: &str) -> Option<Vec<Rule>> {
        let role = RoleRef { kind: RoleKind::of(kind), name: name.into() };
        self.rules(&namespace.into(), &role).map(|rules| rules.to_vec())
    }
}

/// Where the grants begin that hold for a user in a namespace; cluster-wide ones come first.
fn begins(user: &UserInfo, namespace: &str) -> impl Iterator<Item = Grant> {
    let groups = user.groups.iter().map(|group| Holder::Group(group.as_str().into()));
    let holders: Vec<Holder> = std::iter::once(Holder::User(user.name.as_str().into())).chain(groups).collect();
    let there: Option<Arc<str>> = (!namespace.is_empty()).then(|| namespace.into());
    std::iter::once(Arc::default()).chain(there).flat_map(move |place: Arc<str>| {
        holders.clone().into_iter().map(move |holder| Grant::before_all(holder, place.clone()))
    })
}
