//! Validates Roles, ClusterRoles and their bindings.
//!
//! Corresponds to pkg/apis/rbac/validation.

use super::selector;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};

type Context<'a> = WriteContext<'a>;

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

pub fn role(context: &Context<'_>, role: &At<'_>, errors: &mut Errors) {
    let namespaced = context.row.is_namespaced();
    for rule in role.field("rules").items() {
        policy_rule(&rule, namespaced, errors);
    }
    let aggregation = role.field_if_defined("aggregationRule");
    if !aggregation.is_set() {
        return;
    }
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.push(selectors.required("at least one clusterRoleSelector required if aggregationRule is non-nil"));
    }
    for one in selectors.items() {
        selector::check(&one, errors);
        if selector::is_invalid(&one) {
            errors.push(one.invalid_as(&Value::Null, "invalid label selector."));
        }
    }
}

fn policy_rule(rule: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let [verbs, groups, resources, urls] =
        ["verbs", "apiGroups", "resources", "nonResourceURLs"].map(|field| rule.field(field));
    if verbs.is_empty() {
        errors.push(verbs.required("verbs must contain at least one value"));
    }
    if !urls.is_empty() {
        if namespaced {
            errors.push(urls.invalid("namespaced rules cannot apply to non-resource URLs"));
        }
        let names = rule.field("resourceNames");
        if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
            errors.push(urls.invalid("rules cannot apply to both regular resources and non-resource URLs"));
        }
        return;
    }
    if groups.is_empty() {
        errors.push(groups.required("resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(resources.required("resource rules must supply at least one resource"));
    }
}

pub fn binding(context: &Context<'_>, binding: &At<'_>, errors: &mut Errors) {
    let namespaced = context.row.is_namespaced();
    let role = binding.field("roleRef");
    if role.field("apiGroup").text() != RBAC_GROUP {
        errors.push(unsupported(&role.field("apiGroup"), &[RBAC_GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&role.field("kind").text()) {
        errors.push(unsupported(&role.field("kind"), kinds));
    }
    role.field("name").check_required(names::path_segment, errors);
    binding.field("subjects").items().for_each(|subject| self::subject(&subject, namespaced, errors));
}

/// Returns a `not_supported` error for a text that may be absent.
fn unsupported(at: &At<'_>, supported: &[&str]) -> FieldError {
    FieldError::not_supported(at.path.clone(), &json!(at.text()), supported)
}

fn subject(subject: &At<'_>, namespaced: bool, errors: &mut Errors) {
    let (kind, name, group) = (subject.field("kind"), subject.field("name"), subject.field("apiGroup"));
    if name.is_empty() {
        errors.push(name.required(""));
    }
    match kind.text() {
        "ServiceAccount" => {
            if !name.is_empty() {
                name.check(names::dns1123_subdomain, errors);
            }
            if !group.is_empty() {
                errors.push(group.not_supported(&[""]));
            }
            if !namespaced && subject.field("namespace").is_empty() {
                errors.push(subject.field("namespace").required(""));
            }
        }
        "User" | "Group" => {
            if group.text() != RBAC_GROUP {
                errors.push(unsupported(&group, &[RBAC_GROUP]));
            }
        }
        _ => errors.push(unsupported(&kind, &["ServiceAccount", "User", "Group"])),
    }
}

pub fn binding_update(_context: &Context<'_>, binding: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    if binding.field("roleRef").value != old.field("roleRef").value {
        let role = binding.field("roleRef");
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|field| role.field(field).value);
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        errors.push(role.invalid_shown(shown, "cannot change roleRef"));
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::update;
    use serde_json::json;

    #[test]
    fn a_binding_keeps_its_role() {
        let binding = |role: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}})
        };
        assert_eq!(
            update(binding("a"), binding("b")),
            [
                "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"b\"}: cannot \
                 change roleRef"
            ]
        );
    }
}
