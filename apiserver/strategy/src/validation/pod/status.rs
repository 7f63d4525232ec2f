//! Validates the status of a pod: conditions, terminated containers, resource claims and addresses.
//!
//! Corresponds to ValidatePodStatusUpdate.

use super::update::annotation_updates;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, check_ip};
use proto::meta::names;
use serde_json::Value;

pub fn validate(_context: &WriteContext<'_>, pod: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    annotation_updates(pod, old, errors);
    let (status, before) = (pod.field("status"), old.field("status"));
    conditions(&status.field("conditions"), errors);
    let nominated = status.field("nominatedNodeName");
    if nominated.value != before.field("nominatedNodeName").value && !nominated.is_empty() {
        nominated.check(names::dns1123_subdomain, errors);
        if !old.down("spec.nodeName").is_empty() {
            errors.push(nominated.forbidden("may not be set on pods that are already bound to a node"));
        }
    }
    observed_generation(&status.field("observedGeneration"), errors);
    let class = status.field("qosClass");
    class.check_unchanged(&before.field("qosClass"), errors);
    for (list, containers) in [
        ("containerStatuses", Some("containers")),
        ("initContainerStatuses", Some("initContainers")),
        ("ephemeralContainerStatuses", None),
    ] {
        transitions(&status.field(list), &before.field(list), &old.field("spec"), containers, errors);
    }
    claims(&status.field("resourceClaimStatuses"), &pod.down("spec.resourceClaims"), errors);
    addresses(&status.field("podIPs"), &before.field("podIPs"), errors);
    host_addresses(&status, &before, errors);
}

fn observed_generation(generation: &At<'_>, errors: &mut Errors) {
    if generation.integer().is_some_and(|generation| generation < 0) {
        errors.push(generation.invalid("must be a non-negative integer"));
    }
}

fn conditions(conditions: &At<'_>, errors: &mut Errors) {
    for condition in conditions.items() {
        observed_generation(&condition.field("observedGeneration"), errors);
        if !["PodScheduled", "Ready", "Initialized"].contains(&condition.field("type").text()) {
            At::new(condition.path_of("Type"), condition.field("type").value).check(names::qualified_name, errors);
        }
    }
}

fn claims(statuses: &At<'_>, claims: &At<'_>, errors: &mut Errors) {
    let mut seen = Vec::new();
    for status in statuses.items() {
        let name = status.field("name");
        if !claims.items().any(|claim| claim.field("name").text() == name.text()) {
            errors.push(name.invalid_text("must match the name of an entry in `spec.resourceClaims`"));
        }
        if seen.contains(&name.text()) {
            errors.push(name.duplicate());
        }
        seen.push(name.text());
        if status.field("resourceClaimName").is_set() {
            status.field("resourceClaimName").check(names::dns1123_subdomain, errors);
        }
    }
}

/// Checks that a terminated container stays terminated, unless a restart policy starts it again. `containers` is the
/// field of the spec that has these containers; ephemeral containers have none, because nothing restarts them.
fn transitions(new: &At<'_>, old: &At<'_>, spec: &At<'_>, containers: Option<&str>, errors: &mut Errors) {
    let lists = [spec.field("initContainers"), spec.field("containers")];
    let restarts_all = lists.iter().flat_map(At::items).any(|container| {
        let mut rules = container.field("restartPolicyRules").items();
        rules.any(|rule| rule.field("action").text() == "RestartAllContainers")
    });
    if restarts_all && containers.is_some() {
        return;
    }
    for (index, before) in old.items().enumerate() {
        let terminated = before.down("state.terminated");
        let name = before.field("name");
        let now = new.items().find(|now| now.field("name").value == name.value);
        if !terminated.is_set() || now.is_none_or(|now| now.down("state.terminated").is_set()) {
            continue;
        }
        let containers = containers.map(|containers| spec.field(containers));
        let mut containers = containers.iter().flat_map(At::items);
        let container = containers.find(|container| container.field("name").value == name.value);
        let exit_code = terminated.field("exitCode").integer().unwrap_or(0);
        if !container.is_some_and(|container| is_restarted(&container, spec, exit_code)) {
            let at = At::new(format!("{}[{index}].state", new.path), &Value::Null);
            errors.push(at.forbidden("may not be transitioned to non-terminated state"));
        }
    }
}

/// Returns true if a container is restarted after an exit. Its rules decide, then its own policy, then the pod's.
fn is_restarted(container: &At<'_>, spec: &At<'_>, exit_code: i64) -> bool {
    let matches = |rule: &At<'_>| {
        let named = rule.down("exitCodes.values").items().any(|code| code.integer() == Some(exit_code));
        rule.field("action").text() == "Restart"
            && match rule.down("exitCodes.operator").text() {
                "In" => named,
                "NotIn" => !named,
                _ => false,
            }
    };
    if container.field("restartPolicyRules").items().any(|rule| matches(&rule)) {
        return true;
    }
    let own = container.field("restartPolicy");
    match if own.is_set() { own.text() } else { spec.field("restartPolicy").text() } {
        "Always" => true,
        "OnFailure" => exit_code != 0,
        _ => false,
    }
}

/// Checks new addresses, and that there is at most one of each IP family.
fn addresses(list: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let known: Vec<&str> = before.items().map(|entry| entry.field("ip").text()).collect();
    let mut families = Vec::new();
    for entry in list.items() {
        let ip = At::new(entry.path.clone(), entry.field("ip").value);
        if !known.contains(&ip.text()) {
            check_ip(&ip, errors);
        }
        families.push(ip.text().contains(':'));
    }
    if families.len() > 1 && (families.len() > 2 || families[0] == families[1]) {
        errors.push(list.invalid("may specify no more than one IP for each IP family"));
    }
}

fn host_addresses(status: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let list = status.field("hostIPs");
    if let Some(first) = list.items().next()
        && first.field("ip").text() != status.field("hostIP").text()
    {
        errors.push(first.field("ip").invalid_text("must be equal to `hostIP`"));
    }
    addresses(&list, &before.field("hostIPs"), errors);
}
