//! The ClusterRole aggregation controller gives roles like `admin` the rules of all roles that their selectors match.
//!
//! Corresponds to pkg/controller/clusterroleaggregation.

use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Patch, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::rbac::v1::{ClusterRole, PolicyRule};
use proto::meta::label_selector;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

const MANAGER: &str = "clusterrole-aggregation-controller";

/// Roles that are reconciled concurrently, as in kube-controller-manager.
const WORKERS: usize = 5;

struct Controller {
    roles: Lister<ClusterRole>,
}

#[derive(Debug)]
pub struct Observed {
    pub role: Arc<ClusterRole>,
    /// Every role, sorted by name.
    pub all: Vec<Arc<ClusterRole>>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let roles: Lister<ClusterRole> = setup.lister();
    setup.on_event(&queue, {
        let roles = roles.clone();
        // Any aggregating role may select this one.
        move |_: &Event<ClusterRole>, queue| {
            roles.filter("", |role| role.aggregation_rule.is_some()).iter().for_each(|role| queue.add(role.key()));
        }
    });
    setup.run(queue, WORKERS, Controller { roles })
}

pub fn plan(observed: &Observed) -> Plan {
    let role = &*observed.role;
    let Some(rules) = aggregated(role, &observed.all) else { return Plan::default() };
    if role.rules.as_deref().unwrap_or_default() == rules {
        return Plan::default();
    }
    let value = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": role.name()}, "rules": rules
    });
    let patch = Patch::Apply { value, manager: MANAGER.to_owned(), force: true };
    Plan::of([Action::patch::<ClusterRole>("", role.name(), patch)])
}

/// Returns the rules of the selected roles without duplicates; `None` for a role that does not aggregate.
fn aggregated(role: &ClusterRole, all: &[Arc<ClusterRole>]) -> Option<Vec<PolicyRule>> {
    let selectors = role.aggregation_rule.as_ref()?.cluster_role_selectors.iter().flatten();
    let no_labels = BTreeMap::new();
    let mut rules: Vec<PolicyRule> = Vec::new();
    for selector in selectors {
        let Ok(selector) = label_selector::from_typed(Some(selector)) else { continue };
        let selected =
            all.iter().filter(|other| selector.matches(other.metadata.labels.as_ref().unwrap_or(&no_labels)));
        for rule in selected.filter(|other| other.name() != role.name()).flat_map(|other| other.rules.iter().flatten())
        {
            if !rules.contains(rule) {
                rules.push(rule.clone());
            }
        }
    }
    Some(rules)
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        Some(Observed { role: self.roles.by_key(key)?, all: self.roles.list() })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::rbac::v1::AggregationRule;
    use proto::kinds::metav1::LabelSelector;

    fn role(name: &str, labels: &[(&str, &str)], resources: &[&str]) -> Arc<ClusterRole> {
        let mut metadata = fixture::meta(name);
        metadata.labels = Some(fixture::labels(labels));
        let rule = |resource: &&str| PolicyRule {
            resources: Some(vec![(*resource).to_owned()]),
            verbs: vec!["get".to_owned()],
            ..PolicyRule::default()
        };
        Arc::new(ClusterRole { metadata, rules: Some(resources.iter().map(rule).collect()), aggregation_rule: None })
    }

    fn aggregating(labels: &[(&str, &str)], resources: &[&str]) -> Arc<ClusterRole> {
        let mut role = (*role("sum", labels, resources)).clone();
        let selector =
            LabelSelector { match_labels: Some(fixture::labels(&[("to-sum", "true")])), ..LabelSelector::default() };
        role.aggregation_rule = Some(AggregationRule { cluster_role_selectors: Some(vec![selector]) });
        Arc::new(role)
    }

    fn resources(plan: &Plan) -> Option<String> {
        let [Action::Patch { patch, .. }] = plan.actions.as_slice() else { return None };
        let rules = patch.value()["rules"].as_array().unwrap();
        Some(rules.iter().map(|rule| rule["resources"][0].as_str().unwrap()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn rules_are_put_together_once_each() {
        let labelled = &[("to-sum", "true")];
        let cases: Vec<(&str, Arc<ClusterRole>, Vec<Arc<ClusterRole>>, Option<&str>)> = vec![
            ("nothing aggregates", role("sum", &[], &["pods"]), vec![role("a", labelled, &["jobs"])], None),
            (
                "two roles",
                aggregating(&[], &[]),
                vec![role("a", labelled, &["jobs", "pods"]), role("b", labelled, &["pods", "nodes"])],
                Some("jobs pods nodes"),
            ),
            ("as it is", aggregating(&[], &["jobs"]), vec![role("a", labelled, &["jobs"])], None),
            ("one less", aggregating(&[], &["jobs", "pods"]), vec![role("a", labelled, &["jobs"])], Some("jobs")),
            ("none left", aggregating(&[], &["jobs"]), vec![role("a", &[], &["jobs"])], Some("")),
            ("not itself", aggregating(labelled, &["jobs"]), vec![aggregating(labelled, &["jobs"])], Some("")),
        ];
        for (what, role, all, expected) in cases {
            assert_eq!(resources(&plan(&Observed { role, all })).as_deref(), expected, "{what}");
        }
    }
}
