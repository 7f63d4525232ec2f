//! `RbacIndex`: the RBAC authorizer, an index compiled from roles and bindings.
//!
//! The index is derived state: the same objects give the same index, whatever their history. A grant only names its role,
//! and rules are looked up for each request, so that a change costs no more than its own size. Corresponds to
//! plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation.

mod grant;
mod cluster_roles;

#[cfg(test)]
mod tests;

use super::attributes::{Attributes, Decision};
use super::rules::Rule;
use cluster_roles::ClusterRoles;
use grant::{Grant, RoleKind, RoleRef, Subject};
use imbl::{OrdMap, OrdSet};
use request::UserInfo;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// One object that was created (`before` is `None`), updated, or deleted (`after` is `None`).
#[derive(Clone, Debug, Default)]
pub struct Change {
    pub before: Option<Arc<Value>>,
    pub after: Option<Arc<Value>>,
}

/// The most bindings of one user that a trace lists.
const MAX_BINDINGS_IN_TRACE: usize = 100;

/// Changes of the objects that an index is compiled from, at most one for each object.
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
    /// The rules of each Role, by namespace and name.
    roles: OrdMap<(Arc<str>, Arc<str>), Arc<[Rule]>>,
    grants: OrdSet<Grant>,
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

impl RbacIndex {
    /// Returns the index after these changes.
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
        for mut from in lower_bounds(attributes.user, attributes.namespace) {
            // Of all bindings to one role, only the first is checked.
            while let Some(grant) =
                self.grants.range(from.clone()..).next().filter(|grant| grant.has_same_subject_and_namespace(&from))
            {
                match self.rules(&grant.namespace, &grant.role) {
                    Some(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                        return Decision::Allow(format!("RBAC: allowed by {grant}"));
                    }
                    Some(_) => {}
                    None => drop(missing.insert(grant.role.not_found())),
                }
                from = grant.after_role();
            }
        }
        Decision::NoOpinion(match missing.len() {
            0 => String::new(),
            1 => format!("RBAC: {}", missing.into_iter().collect::<String>()),
            _ => format!("RBAC: [{}]", missing.into_iter().collect::<Vec<_>>().join(", ")),
        })
    }

    /// Returns all rules that apply to a user in a namespace, and errors for roles that do not exist.
    pub fn rules_for(&self, user: &UserInfo, namespace: &str) -> (Vec<Rule>, Vec<String>) {
        let (mut rules, mut errors) = (Vec::new(), Vec::new());
        for grant in self.grants_to(user, namespace) {
            match self.rules(&grant.namespace, &grant.role) {
                Some(granted) => rules.extend(granted.iter().cloned()),
                None => errors.push(grant.role.not_found()),
            }
        }
        (rules, errors)
    }

    /// Returns the grants to the user or one of its groups that apply in the namespace, cluster-wide ones first.
    fn grants_to(&self, user: &UserInfo, namespace: &str) -> impl Iterator<Item = &Grant> {
        lower_bounds(user, namespace).flat_map(|from| {
            self.grants.range(from.clone()..).take_while(move |grant| grant.has_same_subject_and_namespace(&from))
        })
    }

    /// Returns the rule by which `authorize` allows the request, as JSON.
    pub fn allowing_rule(&self, attributes: &Attributes<'_>) -> Option<String> {
        let held = self.grants_to(attributes.user, attributes.namespace);
        let mut rules =
            held.filter_map(|grant| self.rules(&grant.namespace, &grant.role)).flat_map(|rules| rules.iter());
        rules.find(|rule| rule.allows(attributes)).map(|rule| rule.to_value().to_string())
    }

    /// Returns the first [`MAX_BINDINGS_IN_TRACE`] bindings of the user or one of its groups that apply in the namespace.
    pub fn bindings_of(&self, user: &UserInfo, namespace: &str) -> Vec<String> {
        self.grants_to(user, namespace).take(MAX_BINDINGS_IN_TRACE).map(Grant::to_string).collect()
    }

    /// Returns the rules of a `roleRef`, for the escalation check: a binding must not grant rules that its writer lacks.
    pub fn rules_of_role(&self, namespace: &str, kind: &str, name: &str) -> Option<Vec<Rule>> {
        let role = RoleRef { kind: RoleKind::of(kind), name: name.into() };
        self.rules(&namespace.into(), &role).map(|rules| rules.to_vec())
    }
}

/// Returns the lower bound of each range of grants that applies to a user in a namespace, cluster-wide ranges first.
fn lower_bounds(user: &UserInfo, namespace: &str) -> impl Iterator<Item = Grant> {
    let groups = user.groups.iter().map(|group| Subject::Group(group.as_str().into()));
    let subjects: Vec<Subject> = std::iter::once(Subject::User(user.name.as_str().into())).chain(groups).collect();
    let there: Option<Arc<str>> = (!namespace.is_empty()).then(|| namespace.into());
    std::iter::once(Arc::default()).chain(there).flat_map(move |place: Arc<str>| {
        subjects.clone().into_iter().map(move |subject| Grant::before_grants_to(subject, place.clone()))
    })
}
