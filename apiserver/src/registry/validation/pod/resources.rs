//! Resource names and amounts, of containers and of whole pods.
//!
//! Corresponds to ValidateContainerResourceRequirements and pkg/apis/core/helper.

use crate::registry::validation::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use serde_json::{Value, json};
use std::collections::BTreeSet;

const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
    "storage",
    "requests.storage",
];
const CONTAINER: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const WHOLE_NUMBERS: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

pub fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && names::qualified_name(&format!("requests.{name}")).is_empty()
}

pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

pub fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page(name)
}

pub fn is_whole_number(name: &str) -> bool {
    WHOLE_NUMBERS.contains(&name) || is_extended(name)
}

/// A resource name on its own; says whether it was fit to look further.
pub fn check_name(at: &At<'_>, name: &str, errors: &mut Errors) -> bool {
    let complaints = names::qualified_name(name);
    if !complaints.is_empty() {
        errors.extend(complaints.into_iter().map(|complaint| at.invalid_as(&json!(name), complaint)));
        return false;
    }
    if !name.contains('/') && !is_standard(name) {
        errors.push(at.invalid_as(&json!(name), "must be a standard resource type or fully qualified"));
    }
    true
}

pub fn check_container_name(at: &At<'_>, name: &str, errors: &mut Errors) {
    check_name(at, name, errors);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_huge_page(name) {
            errors.push(at.invalid_as(&json!(name), "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(at.invalid_as(&json!(name), "doesn't follow extended resource name standard"));
    }
}

/// An amount is not negative, and whole where only whole ones make sense.
pub fn check_amount(at: &At<'_>, name: &str, errors: &mut Errors) {
    let Ok(amount) = Quantity::try_from(at.value) else { return };
    if amount.signum() < 0 {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be greater than or equal to 0"));
    }
    if is_whole_number(name) && amount.milli_value() % 1000 != 0 {
        errors.push(at.invalid_as(&json!(amount.to_string()), "must be an integer"));
    }
}

/// A list of resources without further rules.
pub fn quantities(list: &At<'_>, errors: &mut Errors) {
    for (name, amount) in list.entries() {
        check_container_name(&amount, name, errors);
        check_amount(&amount, name, errors);
    }
}

/// The resource claims of a pod, by name.
pub struct Claims<'a>(BTreeSet<&'a str>);

impl<'a> Claims<'a> {
    pub fn of(claims: &At<'a>, errors: &mut Errors) -> Self {
        let mut names = BTreeSet::new();
        for claim in claims.items() {
            let name = claim.field("name");
            if name.is_empty() {
                errors.push(name.required(""));
            } else if !names.insert(name.text()) {
                errors.push(name.duplicate());
            } else {
                name.check(proto::meta::names::dns1123_label, errors);
            }
            let sources = ["resourceClaimName", "resourceClaimTemplateName"];
            match sources.iter().filter(|source| claim.field(source).is_set()).count() {
                0 => {
                    errors.push(claim.invalid("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
                }
                1 => {}
                _ => errors.push(
                    claim.invalid("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
                ),
            }
        }
        Self(names)
    }
}

pub fn of_container(resources: &At<'_>, claims: &Claims<'_>, errors: &mut Errors) {
    check(resources, check_container_name, errors);
    claim_names(&resources.field("claims"), claims, errors);
}

fn check(resources: &At<'_>, check_name: fn(&At<'_>, &str, &mut Errors), errors: &mut Errors) {
    let (limits, requests) = (resources.field("limits"), resources.field("requests"));
    for (name, amount) in limits.entries() {
        check_name(&amount, name, errors);
        check_amount(&amount, name, errors);
        check_huge_pages(&amount, name, errors);
    }
    for (name, amount) in requests.entries() {
        check_name(&amount, name, errors);
        check_amount(&amount, name, errors);
        check_huge_pages(&amount, name, errors);
        against_limit(&requests, &limits, name, amount.value, errors);
    }
    let named = |wanted: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| wanted(name));
    if named(is_huge_page) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

fn check_huge_pages(amount: &At<'_>, name: &str, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-").and_then(|size| Quantity::parse(size).ok()) else { return };
    let Ok(quantity) = Quantity::try_from(amount.value) else { return };
    if size.value() > 0 && quantity.value() % size.value() != 0 {
        let shown = json!(quantity.to_string());
        errors.push(amount.invalid_as(&shown, format!("{quantity} is not positive integer multiple of {name}")));
    }
}

fn against_limit(requests: &At<'_>, limits: &At<'_>, name: &str, request: &Value, errors: &mut Errors) {
    let limit = limits.key(name);
    if !limit.is_set() {
        if !may_overcommit(name) {
            errors.push(limits.required("Limit must be set for non overcommitable resources"));
        }
        return;
    }
    let (Ok(request), Ok(limit)) = (Quantity::try_from(request), Quantity::try_from(limit.value)) else { return };
    let shown = json!(request.to_string());
    if request != limit && !may_overcommit(name) {
        errors.push(requests.invalid_as(&shown, format!("must be equal to {name} limit of {limit}")));
    } else if request > limit {
        errors.push(requests.invalid_as(&shown, format!("must be less than or equal to {name} limit of {limit}")));
    }
}

fn claim_names(used: &At<'_>, claims: &Claims<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for claim in used.items() {
        let name = claim.field("name");
        if name.is_empty() {
            errors.push(name.required(""));
            continue;
        }
        if !seen.insert((name.text(), claim.field("request").text())) {
            errors.push(At::new(claim.path.clone(), name.value).duplicate());
        }
        if !claims.0.contains(name.text()) {
            let known = if claims.0.is_empty() {
                " which is empty".to_owned()
            } else {
                format!(": {}", claims.0.iter().copied().collect::<Vec<_>>().join(", "))
            };
            let mut error = At::new(claim.path.clone(), name.value).not_found();
            error.message.push_str(&format!(": must be one of the names in pod.spec.resourceClaims{known}"));
            errors.push(error);
        }
    }
}

fn check_pod_name(at: &At<'_>, name: &str, errors: &mut Errors) {
    if !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.push(At::new(at.path.clone(), &json!(name)).not_supported(&["cpu", "hugepages-", "memory"]));
    }
}

/// Resources of the pod as a whole.
pub fn of_pod(spec: &At<'_>, _claims: &Claims<'_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if !resources.field("claims").is_empty() {
        errors.push(resources.field("claims").forbidden("claims may not be specified for pod-level resources"));
    }
    check(&resources, check_pod_name, errors);
    for name in ["cpu", "memory"] {
        aggregate(spec, &resources, name, errors);
    }
}

/// All containers together may not ask for more than the pod does.
fn aggregate(spec: &At<'_>, resources: &At<'_>, name: &str, errors: &mut Errors) {
    let Ok(whole) = Quantity::try_from(resources.field("requests").key(name).value) else { return };
    let requested = |container: &At<'_>| Quantity::try_from(container.down("resources.requests").key(name).value).ok();
    let sum: Quantity = spec.field("containers").items().filter_map(|container| requested(&container)).sum();
    if sum > whole {
        let at = resources.field("requests").key(name);
        let shown = json!(whole.to_string());
        errors.push(
            at.invalid_as(&shown, format!("must be greater than or equal to aggregate container requests of {sum}")),
        );
    }
}
