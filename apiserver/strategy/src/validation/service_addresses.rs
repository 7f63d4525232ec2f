//! Validates the cluster IPs and IP families of a Service against each other, before any address is allocated.
//!
//! Corresponds to ValidateServiceClusterIPsRelatedFields of pkg/apis/core/validation.

use field_checks::at::{At, Errors, check_ip};
use std::collections::BTreeSet;
use std::net::IpAddr;

const FAMILIES: &[&str] = &["IPv4", "IPv6"];
const FAMILY_POLICIES: &[&str] = &["PreferDualStack", "RequireDualStack", "SingleStack"];

/// Returns the errors of the cluster IPs, the IP families and the family policy.
pub fn addresses(spec: &At<'_>) -> Errors {
    let mut errors = Errors::new();
    if spec.field("type").text() == "ExternalName" {
        return errors;
    }
    let (ip, ips) = (spec.field("clusterIP"), spec.field("clusterIPs"));
    match (ip.is_empty(), ips.value.pointer("/0")) {
        (false, None) => errors.push(ips.required("")),
        (false, Some(first)) if first != ip.value => errors.push(ips.invalid("first value must match `clusterIP`")),
        (true, Some(_)) => errors.push(ips.invalid("must be empty when `clusterIP` is not specified")),
        _ => {}
    }
    let families = spec.field("ipFamilies");
    let mut seen = BTreeSet::new();
    for family in families.items() {
        if !FAMILIES.contains(&family.text()) {
            errors.push(family.not_supported(FAMILIES));
        }
        if !seen.insert(family.text()) {
            errors.push(family.duplicate());
        }
    }
    spec.field("ipFamilyPolicy").check_optional_enum(FAMILY_POLICIES, &mut errors);
    if are_addresses(&ips, &mut errors) {
        check_families(&ips, &families, &mut errors);
    }
    errors
}

/// Checks the syntax of the addresses. Returns whether all are valid, so that their families can be checked.
fn are_addresses(ips: &At<'_>, errors: &mut Errors) -> bool {
    let before = errors.len();
    for (index, ip) in ips.items().enumerate() {
        if index == 0 && ip.text() == "None" {
            if ips.len() > 1 {
                errors.push(ips.invalid("'None' must be the first and only value"));
            }
            continue;
        }
        check_ip(&ip, errors);
    }
    let are_valid = errors.len() == before;
    if ips.len() > 2 {
        errors.push(ips.invalid("may only hold up to 2 values"));
    }
    are_valid
}

fn check_families(ips: &At<'_>, families: &At<'_>, errors: &mut Errors) {
    let parsed: Vec<IpAddr> = ips.items().filter_map(|ip| ip.text().parse().ok()).collect();
    let is_dual = parsed.iter().any(IpAddr::is_ipv4) && parsed.iter().any(IpAddr::is_ipv6);
    if ips.len() > 1 && !is_dual {
        errors.push(ips.invalid("may specify no more than one IP for each IP family"));
    }
    for (index, (ip, family)) in ips.items().zip(families.items()).enumerate() {
        let Ok(address) = ip.text().parse::<IpAddr>() else { continue };
        let expected = family.text();
        if FAMILIES.contains(&expected) && address.is_ipv4() != (expected == "IPv4") {
            let why = format!("expected an {expected} value as indicated by `ipFamilies[{index}]`");
            errors.push(ip.invalid(why));
        }
    }
}
