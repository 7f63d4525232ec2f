//! Validates Workloads and PodGroups: templates of groups of pods, and the groups that are scheduled together.
//!
//! Corresponds to the declarative validation of k8s.io/api/scheduling/v1alpha2.

use super::conditions;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::status::FieldError;
use std::collections::BTreeSet;

type Context<'a> = WriteContext<'a>;

const MAX_TEMPLATES: usize = 8;
const MAX_CLAIMS: usize = 4;
const MAX_TOPOLOGIES: usize = 1;
const DISRUPTION_MODES: &[&str] = &["Pod", "PodGroup"];

pub fn workload(_context: &Context<'_>, workload: &At<'_>, errors: &mut Errors) {
    let spec = workload.field("spec");
    let controller = spec.field("controllerRef");
    if controller.is_set() {
        let group = controller.field("apiGroup");
        if !group.is_empty() {
            group.check(names::dns1123_subdomain, errors);
        }
        for field in ["kind", "name"] {
            controller.field(field).check_required(names::path_segment, errors);
        }
    }
    let templates = spec.field("podGroupTemplates");
    if templates.is_empty() {
        errors.push(templates.required(""));
    }
    check_each_unique(&templates, MAX_TEMPLATES, errors, &|template, errors| {
        template.field("name").check_required(names::dns1123_label, errors);
        check_group(template, errors);
    });
}

pub fn workload_update(_context: &Context<'_>, workload: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in ["controllerRef", "podGroupTemplates"] {
        workload.field("spec").field(field).check_unchanged(&old.field("spec").field(field), errors);
    }
}

pub fn pod_group(_context: &Context<'_>, group: &At<'_>, errors: &mut Errors) {
    let spec = group.field("spec");
    let reference = spec.field("podGroupTemplateRef");
    if reference.is_set() {
        let workload = reference.field("workload");
        check_union(&reference, &["workload"], errors);
        if workload.is_set() {
            workload.field("workloadName").check_required(names::dns1123_subdomain, errors);
            workload.field("podGroupTemplateName").check_required(names::dns1123_label, errors);
        }
    }
    check_group(&spec, errors);
}

pub fn pod_group_update(_context: &Context<'_>, group: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    for field in [
        "podGroupTemplateRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ] {
        group.field("spec").field(field).check_unchanged(&old.field("spec").field(field), errors);
    }
}

pub fn pod_group_status(_context: &Context<'_>, group: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    let status = group.field("status");
    conditions::check(&status.field("conditions"), errors);
    check_each_unique(&status.field("resourceClaimStatuses"), MAX_CLAIMS, errors, &|made, errors| {
        let name = made.field("resourceClaimName");
        if name.is_set() {
            name.check(names::dns1123_subdomain, errors);
        }
    });
}

/// Checks what a group and the template of a group have in common.
fn check_group(group: &At<'_>, errors: &mut Errors) {
    let policy = group.field("schedulingPolicy");
    check_union(&policy, &["basic", "gang"], errors);
    if policy.field("gang").is_set() {
        let count = policy.field("gang").field("minCount");
        match count.integer().unwrap_or_default() {
            0 => errors.push(count.required("")),
            number if number < 0 => errors.push(count.invalid("must be greater than or equal to 1")),
            _ => {}
        }
    }
    let topologies = group.field("schedulingConstraints").field("topology");
    if topologies.len() > MAX_TOPOLOGIES {
        errors.push(FieldError::too_many(topologies.path.clone(), topologies.len(), MAX_TOPOLOGIES));
    }
    topologies.items().for_each(|topology| topology.field("key").check_required(names::qualified_name, errors));
    check_each_unique(&group.field("resourceClaims"), MAX_CLAIMS, errors, &|claim, errors| {
        check_union(claim, &["resourceClaimName", "resourceClaimTemplateName"], errors);
        claim.field("name").check_required(names::dns1123_label, errors);
        for field in ["resourceClaimName", "resourceClaimTemplateName"] {
            if claim.field(field).is_set() {
                claim.field(field).check(names::dns1123_subdomain, errors);
            }
        }
    });
    group.field("disruptionMode").check_optional_enum(DISRUPTION_MODES, errors);
    let class = group.field("priorityClassName");
    if !class.is_empty() {
        class.check(names::dns1123_subdomain, errors);
    }
}

/// Checks that exactly one of the members is set.
fn check_union(of: &At<'_>, members: &[&str], errors: &mut Errors) {
    let quoted = |names: &[&str]| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let set: Vec<&str> = members.iter().copied().filter(|member| of.field(member).is_set()).collect();
    match set.len() {
        0 => errors.push(of.invalid_as(&"".into(), format!("must specify one of: {}", quoted(members)))),
        1 => {}
        _ => {
            let shown = format!("{{{}}}", quoted(&set));
            errors.push(of.invalid_as(&shown.into(), format!("must specify exactly one of: {}", quoted(members))));
        }
    }
}

/// Checks the items of a list that is not too long, and that no two of them have the same name.
fn check_each_unique(list: &At<'_>, max: usize, errors: &mut Errors, check: &dyn Fn(&At<'_>, &mut Errors)) {
    if list.len() > max {
        errors.push(FieldError::too_many(list.path.clone(), list.len(), max));
        return;
    }
    let mut seen = BTreeSet::new();
    for item in list.items() {
        let name = item.field("name");
        if !seen.insert(name.text()) {
            errors.push(At::new(item.path.clone(), name.value).duplicate());
        }
        check(&item, errors);
    }
}

#[cfg(test)]
mod tests {
    use crate::gates::Gates;
    use crate::testing::{create, create_with, update};
    use serde_json::{Value, json};

    fn group(spec: Value) -> Value {
        json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "spec": spec})
    }

    fn workload(templates: Value) -> Value {
        json!({
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "spec": {"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"}, "podGroupTemplates": templates},
        })
    }

    #[test]
    fn a_group_has_one_policy() {
        let at = "spec.schedulingPolicy";
        for (policy, expected) in [
            (json!({"basic": {}}), vec![]),
            (json!({"gang": {"minCount": 3}}), vec![]),
            (json!({}), vec![format!("{at}: Invalid value: \"\": must specify one of: `basic`, `gang`")]),
            (
                json!({"basic": {}, "gang": {"minCount": 1}}),
                vec![format!(
                    "{at}: Invalid value: \"{{`basic`, `gang`}}\": must specify exactly one of: `basic`, `gang`"
                )],
            ),
            (json!({"gang": {"minCount": 0}}), vec![format!("{at}.gang.minCount: Required value")]),
            (
                json!({"gang": {"minCount": -1}}),
                vec![format!("{at}.gang.minCount: Invalid value: -1: must be greater than or equal to 1")],
            ),
        ] {
            assert_eq!(create(group(json!({"schedulingPolicy": policy}))), expected, "{policy}");
        }
        let old = group(json!({"schedulingPolicy": {"basic": {}}}));
        let new = group(json!({"schedulingPolicy": {"gang": {"minCount": 2}}}));
        let errors = update(old, new);
        assert!(errors[0].ends_with("field is immutable"), "{errors:?}");
    }

    #[test]
    fn a_workload_has_templates_with_different_names() {
        let template = |name: &str| json!({"name": name, "schedulingPolicy": {"basic": {}}});
        let at = "spec.podGroupTemplates";
        assert_eq!(create(workload(json!([template("a"), template("b")]))), [""; 0]);
        assert_eq!(create(workload(json!([]))), [format!("{at}: Required value")]);
        assert_eq!(
            create(workload(json!([template("a"), template("a")]))),
            [format!("{at}[1]: Duplicate value: \"a\"")]
        );
        let many: Vec<Value> = (0..9).map(|number| template(&format!("t{number}"))).collect();
        assert_eq!(create(workload(json!(many))), [format!("{at}: Too many: 9: must have at most 8 items")]);
        let old = workload(json!([template("a")]));
        let errors = update(old, workload(json!([template("b")])));
        assert!(errors[0].ends_with("field is immutable"), "{errors:?}");
    }

    #[test]
    fn fields_of_other_gates_are_not_there_without_them() {
        let wrong = group(json!({
            "schedulingPolicy": {"basic": {}}, "disruptionMode": "Odd", "schedulingConstraints": {"topology": [{"key": ""}]},
            "resourceClaims": [{"name": "gpu"}],
        }));
        assert_eq!(create(wrong.clone()), [""; 0]);
        let gates = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,DRAWorkloadResourceClaims=true,\
                     TopologyAwareWorkloadScheduling=true";
        assert_eq!(
            create_with(Gates::with(gates), wrong),
            [
                "spec.schedulingConstraints.topology[0].key: Required value",
                "spec.resourceClaims[0]: Invalid value: \"\": must specify one of: `resourceClaimName`, \
                 `resourceClaimTemplateName`",
                "spec.disruptionMode: Unsupported value: \"Odd\": supported values: \"Pod\", \"PodGroup\"",
            ]
        );
    }
}
