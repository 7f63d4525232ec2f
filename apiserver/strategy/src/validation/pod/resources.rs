//! Validates resource requirements of containers and of pods.
//!
//! Corresponds to ValidateContainerResourceRequirements.

use super::annotations::MIRROR;
use crate::validation::resource_names::{check_amount, check_container_name, check_name, is_huge_page, may_overcommit};
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Checks the overhead of a pod by the rules for limits of a container.
pub fn of_overhead(overhead: &At<'_>, errors: &mut Errors) {
    let requirements = json!({"limits": overhead.value});
    check(&At::new(overhead.path.clone(), &requirements), check_container_name, errors);
}

/// The resource claims of a pod, by name.
pub struct Claims<'a>(BTreeSet<&'a str>);

impl<'a> Claims<'a> {
    /// Reads the claims. `meta` is the metadata of a pod, `None` for a template.
    pub fn of(claims: &At<'a>, meta: Option<&At<'_>>, errors: &mut Errors) -> Self {
        let is_mirror = meta.is_some_and(|meta| meta.field("annotations").key(MIRROR).is_set());
        let mut seen = BTreeSet::new();
        for claim in claims.items() {
            if is_mirror {
                errors.push(At::new("", claim.value).forbidden("static pods do not support resource claims"));
                continue;
            }
            let name = claim.field("name");
            if name.is_empty() {
                errors.push(name.required(""));
            } else if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            } else {
                name.check(names::dns1123_label, errors);
            }
            let sources = ["resourceClaimName", "resourceClaimTemplateName"].map(|source| claim.field(source));
            match sources.iter().filter(|source| source.is_set()).count() {
                0 => errors.push(invalid_claim(
                    &claim,
                    "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                )),
                1 => {}
                _ => errors.push(invalid_claim(
                    &claim,
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                )),
            }
            for source in sources.iter().filter(|source| source.is_set()) {
                source.check(names::dns1123_subdomain, errors);
            }
        }
        let names = claims.items().map(|claim| claim.field("name").text()).filter(|name| !name.is_empty());
        Self(names.collect())
    }
}

/// Returns an error about a claim. It shows the claim under the names of its Go fields, as Kubernetes does.
fn invalid_claim(claim: &At<'_>, detail: &str) -> FieldError {
    let field = |name: &str| claim.field(name).value;
    let shown = format!(
        "{{\"Name\":{},\"ResourceClaimName\":{},\"ResourceClaimTemplateName\":{}}}",
        json!(claim.field("name").text()),
        field("resourceClaimName"),
        field("resourceClaimTemplateName"),
    );
    claim.invalid_shown(shown, detail)
}

pub fn of_container(resources: &At<'_>, claims: &Claims<'_>, errors: &mut Errors) {
    check(resources, check_container_name, errors);
    claim_references(&resources.field("claims"), claims, errors);
}

/// Checks the limits and the requests of a container or a pod.
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
        check_against_limit(&requests, &limits, name, amount.value, errors);
        check_huge_pages(&amount, name, errors);
    }
    let named = |wanted: fn(&str) -> bool| limits.entries().chain(requests.entries()).any(|(name, _)| wanted(name));
    if named(is_huge_page) && !named(|name| matches!(name, "cpu" | "memory")) {
        errors.push(resources.forbidden("HugePages require cpu or memory"));
    }
}

fn check_huge_pages(amount: &At<'_>, name: &str, errors: &mut Errors) {
    let Some(size) = name.strip_prefix("hugepages-") else { return };
    let Ok(quantity) = Quantity::try_from(amount.value) else { return };
    let is_size = |size: &Quantity| size.signum() > 0 && size.milli_value() % 1000 == 0;
    let size = Quantity::parse(size).ok().filter(is_size);
    if size.is_none_or(|size| quantity.value() % size.value() != 0) {
        let shown = json!(quantity.to_string());
        errors.push(amount.invalid_as(&shown, format!("{quantity} is not positive integer multiple of {name}")));
    }
}

/// Checks that a request does not exceed its limit. Resources that cannot be overcommitted need an equal limit.
fn check_against_limit(requests: &At<'_>, limits: &At<'_>, name: &str, request: &Value, errors: &mut Errors) {
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

/// Checks that a container refers to claims of the pod, and to none of them twice.
fn claim_references(references: &At<'_>, claims: &Claims<'_>, errors: &mut Errors) {
    let mut seen: BTreeSet<String> = BTreeSet::new();
    for claim in references.items() {
        let (name, request) = (claim.field("name"), claim.field("request"));
        if name.is_empty() {
            errors.push(claim.required(""));
            continue;
        }
        let duplicate = |shown: &str| At::new(claim.path.clone(), &json!(shown)).duplicate();
        if seen.contains(name.text()) {
            // A reference without a request uses all requests of the claim.
            errors.push(duplicate(name.text()));
        } else if request.is_empty() {
            let requests = format!("{}/", name.text());
            errors.extend(seen.iter().filter(|key| key.starts_with(&requests)).map(|_| duplicate(name.text())));
            seen.insert(name.text().to_owned());
        } else {
            request.check(names::dns1123_label, errors);
            let key = format!("{}/{}", name.text(), request.text());
            if !seen.insert(key.clone()) {
                errors.push(duplicate(&key));
            }
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

/// Checks the name of a pod-level resource.
fn check_pod_name(at: &At<'_>, name: &str, errors: &mut Errors) {
    let before = errors.len();
    check_name(at, name, errors);
    if errors.len() == before && !matches!(name, "cpu" | "memory") && !is_huge_page(name) {
        errors.push(At::new(at.path.clone(), &json!(name)).not_supported(&["cpu", "hugepages-", "memory"]));
    }
}

/// Checks the pod-level resources.
pub fn of_pod(spec: &At<'_>, claims: &Claims<'_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    if !resources.is_set() {
        return;
    }
    if spec.down("os.name").text() == "windows" {
        errors.push(resources.forbidden("may not be set for a windows pod"));
        return;
    }
    if resources.field("claims").is_set() {
        errors.push(resources.field("claims").forbidden("claims may not be set for Resources at pod-level"));
    }
    check(&resources, check_pod_name, errors);
    claim_references(&resources.field("claims"), claims, errors);
    let (requests, limits) = (resources.field("requests"), resources.field("limits"));
    for (name, of_pod) in requests.entries() {
        check_covers_containers(spec, "requests", name, &of_pod, errors);
    }
    for (name, of_pod) in limits.entries().filter(|(name, _)| is_huge_page(name)) {
        check_covers_containers(spec, "limits", name, &of_pod, errors);
    }
    for (index, container) in spec.field("containers").items().enumerate() {
        for (name, limit) in container.down("resources.limits").entries() {
            let Ok(pod_limit) = Quantity::try_from(limits.key(name).value) else { continue };
            let Ok(limit) = Quantity::try_from(limit.value) else { continue };
            if limit > pod_limit {
                // As in Kubernetes, the path has a field that does not exist.
                let path = format!("{}.containers[{index}][{name}].limits", resources.path);
                let why = format!("must be less than or equal to pod limits of {pod_limit}");
                errors.push(FieldError::invalid(path, &json!(limit.to_string()), why));
            }
        }
    }
}

/// Checks that an amount of the pod is at least that of its containers. The amounts of containers that run at the same
/// time add up. An init container runs beside the sidecars that started before it.
fn check_covers_containers(spec: &At<'_>, part: &str, name: &str, of_pod: &At<'_>, errors: &mut Errors) {
    let Ok(pod_amount) = Quantity::try_from(of_pod.value) else { return };
    let amount = |container: &At<'_>| {
        Quantity::try_from(container.field("resources").field(part).key(name).value).unwrap_or_default()
    };
    let mut sidecars = Quantity::default();
    let mut peak = Quantity::default();
    for container in spec.field("initContainers").items() {
        let running = sidecars + amount(&container);
        if container.field("restartPolicy").text() == "Always" {
            sidecars = running;
        }
        peak = peak.max(running);
    }
    let regular = spec.field("containers").items().map(|container| amount(&container));
    peak = peak.max(regular.chain([sidecars]).sum());
    if peak > pod_amount {
        let why = format!("must be greater than or equal to aggregate container {part} of {peak}");
        errors.push(of_pod.invalid_as(&json!(pod_amount.to_string()), why));
    }
}
