//! Finds the kinds that a policy names, in its rules without wildcards.
//!
//! Corresponds to typesToCheck of k8s.io/apiserver/pkg/admission/plugin/policy/validating.

use controller_base::discovery::Discovered;
use proto::Gvk;
use proto::gvk::split_api_version;
use proto::kinds::api::admissionregistration::v1::{NamedRuleWithOperations, ValidatingAdmissionPolicySpec};
use std::collections::BTreeSet;

/// Limit on the kinds that are checked.
const MAX_KINDS: usize = 10;

/// The kinds of the variables `object` and `params`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Matched {
    /// Kinds of `object`, sorted.
    pub objects: BTreeSet<Gvk>,
    pub params: Option<Gvk>,
}

impl Matched {
    pub fn of(spec: &ValidatingAdmissionPolicySpec, served: &Discovered) -> Self {
        let rules = spec.match_constraints.as_ref().and_then(|constraints| constraints.resource_rules.as_deref());
        let objects = rules.unwrap_or_default().iter().flat_map(|rule| kinds(rule, served));
        let params = spec.param_kind.as_ref().map(|kind| {
            let (group, version) = split_api_version(kind.api_version.as_deref().unwrap_or_default());
            Gvk::new(group, version, kind.kind.as_deref().unwrap_or_default())
        });
        Self { objects: objects.take(MAX_KINDS).collect(), params }
    }

    pub fn all(&self) -> impl Iterator<Item = &Gvk> {
        self.objects.iter().chain(&self.params)
    }
}

fn kinds<'a>(rule: &'a NamedRuleWithOperations, served: &'a Discovered) -> impl Iterator<Item = Gvk> + 'a {
    let groups = named(rule.api_groups.as_deref());
    let versions = named(rule.api_versions.as_deref());
    let resources = rule.resources.as_deref().unwrap_or_default();
    let has = |names: &[String], name: &str| names.iter().any(|own| own == name);
    let is_named =
        move |gvr: &proto::Gvr| has(groups, &gvr.group) && has(versions, &gvr.version) && has(resources, &gvr.resource);
    served.resources.iter().filter(move |resource| is_named(&resource.gvr)).map(|resource| resource.gvk.clone())
}

/// Returns the names; empty if any has a wildcard.
fn named(names: Option<&[String]>) -> &[String] {
    names.filter(|names| !names.iter().any(|name| name.contains('*'))).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::discovery::ApiResource;
    use proto::Gvr;
    use serde_json::{Value, json};

    fn served() -> Discovered {
        let resource = |group: &str, version: &str, resource: &str, kind: &str| ApiResource {
            gvr: Gvr::new(group, version, resource),
            gvk: Gvk::new(group, version, kind),
            is_namespaced: true,
            verbs: Vec::new(),
            short_names: Vec::new(),
            subresources: Vec::new(),
            is_preferred: true,
        };
        let resources = vec![
            resource("", "v1", "pods", "Pod"),
            resource("apps", "v1", "deployments", "Deployment"),
            resource("apps", "v1", "replicasets", "ReplicaSet"),
        ];
        Discovered { resources, ..Discovered::default() }
    }

    fn matched(rules: Value) -> Vec<String> {
        let spec = json!({"matchConstraints": {"resourceRules": rules}});
        let matched = Matched::of(&serde_json::from_value(spec).unwrap(), &served());
        matched.all().map(Gvk::to_string).collect()
    }

    fn rule(groups: &[&str], versions: &[&str], resources: &[&str]) -> Value {
        json!({"apiGroups": groups, "apiVersions": versions, "resources": resources, "operations": ["*"]})
    }

    #[test]
    fn kinds_that_are_named() {
        let both = ["v1, Kind=Pod", "apps/v1, Kind=Deployment"];
        assert_eq!(matched(json!([rule(&["apps", ""], &["v1"], &["deployments", "pods"])])), both);
        let twice =
            json!([rule(&["apps"], &["v1"], &["deployments"]), rule(&["", "apps"], &["v1"], &["deployments", "pods"])]);
        assert_eq!(matched(twice), both);
    }

    #[test]
    fn wildcards_name_no_kind() {
        for open in [
            rule(&["*"], &["v1"], &["pods"]),
            rule(&["", "*"], &["v1"], &["pods"]),
            rule(&[""], &["*"], &["pods"]),
            rule(&[""], &["v1"], &["*"]),
            rule(&[""], &["v1"], &["pods/status"]),
            rule(&[""], &["v2"], &["pods"]),
        ] {
            assert!(matched(json!([open])).is_empty());
        }
        assert!(Matched::of(&ValidatingAdmissionPolicySpec::default(), &served()).objects.is_empty());
    }
}
