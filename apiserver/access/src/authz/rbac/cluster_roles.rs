//! `ClusterRoles`: the rules of each ClusterRole, including those aggregated from other ClusterRoles.
//!
//! Corresponds to the aggregation rule of rbac.authorization.k8s.io/v1 ClusterRole.

use super::{Change, text};
use crate::authz::rules::Rule;
use imbl::OrdMap;
use proto::meta::label_selector;
use proto::meta::selector::Selector;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterRoles {
    all: OrdMap<Arc<str>, Arc<ClusterRole>>,
    /// The own rules of each role, and those of every role that it selects.
    rules: OrdMap<Arc<str>, Arc<[Rule]>>,
}

#[derive(Debug, PartialEq)]
struct ClusterRole {
    rules: Arc<[Rule]>,
    labels: BTreeMap<String, String>,
    /// `aggregationRule.clusterRoleSelectors`.
    selectors: Vec<Selector>,
}

impl ClusterRole {
    fn of(object: &Value) -> Self {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
        let selectors = object.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
        Self {
            rules: Rule::all_of(object).into(),
            labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
            // An invalid selector selects nothing.
            selectors: selectors
                .into_iter()
                .flatten()
                .filter_map(|selector| label_selector::from_value(Some(selector)).ok())
                .collect(),
        }
    }

    fn is_aggregated(&self) -> bool {
        !self.selectors.is_empty()
    }

    fn selects(&self, other: &Self) -> bool {
        self.selectors.iter().any(|selector| selector.matches(&other.labels))
    }
}

impl ClusterRoles {
    pub fn rules(&self, name: &str) -> Option<&Arc<[Rule]>> {
        self.rules.get(name)
    }

    /// Returns the roles after these changes. Aggregating roles are compiled again only if a changed role is selected by one
    /// of them or aggregates itself.
    pub fn after(&self, changes: &[Change]) -> Self {
        let mut next = self.clone();
        let mut touched = Vec::new();
        for change in changes {
            let Some(object) = change.after.as_ref().or(change.before.as_ref()) else { continue };
            let name: Arc<str> = text(object, "/metadata/name").into();
            touched.extend(next.all.remove(&name));
            next.rules.remove(&name);
            if let Some(object) = &change.after {
                let role = Arc::new(ClusterRole::of(object));
                next.rules.insert(name.clone(), role.rules.clone());
                next.all.insert(name, role.clone());
                touched.push(role);
            }
        }
        let aggregated: Vec<(Arc<str>, Arc<ClusterRole>)> = next
            .all
            .iter()
            .filter(|(_, role)| role.is_aggregated())
            .map(|(name, role)| (name.clone(), role.clone()))
            .collect();
        let concerned =
            |role: &Arc<ClusterRole>| role.is_aggregated() || aggregated.iter().any(|(_, one)| one.selects(role));
        if touched.iter().any(concerned) {
            for (name, role) in &aggregated {
                let rules = next.aggregated_rules(name, role, &mut BTreeSet::new());
                next.rules.insert(name.clone(), rules.into());
            }
        }
        next
    }

    /// Returns the rules of a role and of all roles that it selects, recursively; `above` are the roles that select it.
    fn aggregated_rules<'a>(
        &'a self,
        name: &'a str,
        role: &'a ClusterRole,
        above: &mut BTreeSet<&'a str>,
    ) -> Vec<Rule> {
        let mut rules = role.rules.to_vec();
        if !role.is_aggregated() {
            return rules;
        }
        above.insert(name);
        for (other_name, other) in &self.all {
            if above.contains(other_name.as_ref()) || !role.selects(other) {
                continue;
            }
            for rule in self.aggregated_rules(other_name, other, above) {
                if !rules.contains(&rule) {
                    rules.push(rule);
                }
            }
        }
        above.remove(name);
        rules
    }
}
