//! Validates Ingresses, IngressClasses, NetworkPolicies, IPAddresses and ServiceCIDRs.
//!
//! Corresponds to pkg/apis/networking/validation.

use super::{at, selector, service};
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, check_port_number, port_name};
use proto::meta::names;
use serde_json::{Value, json};
use std::net::IpAddr;

type Context<'a> = WriteContext<'a>;

/// Maximum length of `spec.controller` of an IngressClass.
const MAX_CONTROLLER_BYTES: usize = 250;

pub fn policy(_context: &Context<'_>, policy: &At<'_>, errors: &mut Errors) {
    let spec = policy.field("spec");
    selector::check(&spec.field("podSelector"), errors);
    for (rules, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.field(rules).items() {
            rule.field("ports").items().for_each(|port| policy_port(&port, errors));
            rule.field(peers).items().for_each(|peer| policy_peer(&peer, errors));
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > 2 {
        errors.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    for kind in types.items() {
        if !["Ingress", "Egress"].contains(&kind.text()) {
            errors.push(kind.not_supported(&["Ingress", "Egress"]));
        }
    }
}

fn policy_port(port: &At<'_>, errors: &mut Errors) {
    let (protocol, number, end) = (port.field("protocol"), port.field("port"), port.field("endPort"));
    if protocol.is_set() && !["TCP", "UDP", "SCTP"].contains(&protocol.text()) {
        errors.push(protocol.not_supported(&["TCP", "UDP", "SCTP"]));
    }
    if !number.is_set() {
        if end.is_set() {
            errors.push(end.invalid("may not be specified when `port` is not specified"));
        }
        return;
    }
    let Some(first) = number.integer() else {
        if end.is_set() {
            errors.push(end.invalid("may not be specified when `port` is non-numeric"));
        }
        return number.check(port_name, errors);
    };
    check_port_number(&number, errors);
    let Some(last) = end.integer() else { return };
    if last < first {
        errors.push(end.invalid_as(number.value, "must be greater than or equal to `port`"));
    }
    check_port_number(&end, errors);
}

fn policy_peer(peer: &At<'_>, errors: &mut Errors) {
    let mut found = 0;
    for kind in ["podSelector", "namespaceSelector"] {
        if peer.field(kind).is_set() {
            found += 1;
            selector::check(&peer.field(kind), errors);
        }
    }
    let block = peer.field("ipBlock");
    if block.is_set() {
        found += 1;
        ip_block(&block, errors);
    }
    if found == 0 {
        errors.push(peer.required("must specify a peer"));
    } else if found > 1 && block.is_set() {
        errors.push(peer.forbidden("may not specify both ipBlock and another peer"));
    }
}

fn ip_block(block: &At<'_>, errors: &mut Errors) {
    let cidr = block.field("cidr");
    if cidr.is_empty() {
        errors.push(cidr.required(""));
        return;
    }
    cidr.check(at::cidr, errors);
    let Some(whole) = at::lenient_cidr(cidr.text()) else { return };
    for except in block.field("except").items() {
        except.check(at::cidr, errors);
        let Some(part) = at::lenient_cidr(except.text()) else { continue };
        if !whole.contains(&part.network()) || part.prefix_len() <= whole.prefix_len() {
            errors.push(except.invalid("must be a strict subset of `cidr`"));
        }
    }
}

pub fn ingress(_context: &Context<'_>, ingress: &At<'_>, errors: &mut Errors) {
    ingress_spec(ingress, errors);
    let annotation = ingress.down("metadata.annotations").key("kubernetes.io/ingress.class");
    let class = ingress.down("spec.ingressClassName");
    if annotation.is_set() && class.is_set() && annotation.value != class.value {
        // Kubernetes writes this path without `metadata`.
        let at = At::new("annotations.kubernetes.io/ingress.class", annotation.value);
        errors.push(at.invalid("must match `ingressClassName` when both are specified"));
    }
}

pub fn ingress_update(_context: &Context<'_>, ingress: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    ingress_spec(ingress, errors);
}

fn ingress_spec(ingress: &At<'_>, errors: &mut Errors) {
    let spec = ingress.field("spec");
    let (backend, rules) = (spec.field("defaultBackend"), spec.field("rules"));
    if rules.is_empty() && !backend.is_set() {
        let why = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_as(&Value::Null, why));
    }
    if backend.is_set() {
        ingress_backend(&backend, errors);
    }
    for rule in rules.items() {
        ingress_rule(&rule, errors);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            let check = if host.text().contains('*') { wildcard } else { names::dns1123_subdomain };
            host.check(check, errors);
        }
        if !tls.field("secretName").is_empty() {
            tls.field("secretName").check(names::dns1123_subdomain, errors);
        }
    }
    if spec.field("ingressClassName").is_set() {
        spec.field("ingressClassName").check(names::dns1123_subdomain, errors);
    }
}

/// Checks a host with a wildcard, such as `*.example.com`.
pub fn wildcard(host: &str) -> Vec<String> {
    let is_valid = host.strip_prefix("*.").is_some_and(|rest| names::dns1123_subdomain(rest).is_empty());
    if is_valid {
        return Vec::new();
    }
    vec![
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of \
         lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', \
         regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
            .to_owned(),
    ]
}

fn ingress_rule(rule: &At<'_>, errors: &mut Errors) {
    let host = rule.field("host");
    if !host.is_empty() {
        if host.text().parse::<IpAddr>().is_ok() {
            errors.push(host.invalid("must be a DNS name, not an IP address"));
        }
        host.check(if host.text().contains('*') { wildcard } else { names::dns1123_subdomain }, errors);
    }
    let http = rule.field("http");
    if !http.is_set() {
        return;
    }
    if http.field("paths").is_empty() {
        errors.push(http.field("paths").required(""));
    }
    http.field("paths").items().for_each(|path| ingress_path(&path, errors));
}

const PATH_TYPES: &[&str] = &["Exact", "ImplementationSpecific", "Prefix"];

fn ingress_path(at: &At<'_>, errors: &mut Errors) {
    let (kind, path) = (at.field("pathType"), at.field("path"));
    match kind.text() {
        "Exact" | "Prefix" => {
            if !path.text().starts_with('/') {
                errors.push(path.invalid_text("must be an absolute path"));
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.text().contains(sequence) {
                    errors.push(path.invalid(format!("must not contain '{sequence}'")));
                }
            }
            for suffix in ["/..", "/."] {
                if path.text().ends_with(suffix) {
                    errors.push(path.invalid(format!("cannot end with '{suffix}'")));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.text().starts_with('/') {
                errors.push(path.invalid("must be an absolute path"));
            }
        }
        "" => errors.push(kind.required("pathType must be specified")),
        _ => errors.push(kind.not_supported(PATH_TYPES)),
    }
    ingress_backend(&at.field("backend"), errors);
}

fn ingress_backend(backend: &At<'_>, errors: &mut Errors) {
    let (service, resource) = (backend.field("service"), backend.field("resource"));
    let invalid_backend = |why: &str| backend.invalid_as(&json!(""), why);
    match (service.is_set(), resource.is_set()) {
        (true, true) => errors.push(invalid_backend("cannot set both resource and service backends")),
        (false, false) => errors.push(invalid_backend("resource or service backend is required")),
        (false, true) => typed_reference(&resource, errors),
        (true, false) => {
            service.field("name").check_required(names::dns1123_label, errors);
            let (name, number) = (service.down("port.name"), service.down("port.number"));
            let has_number = number.integer().unwrap_or(0) != 0;
            match (!name.is_empty(), has_number) {
                (true, true) => errors.push(invalid_backend("cannot set both port name & port number")),
                (true, false) => name.check(port_name, errors),
                (false, true) => check_port_number(&number, errors),
                (false, false) => errors.push(backend.required("port name or number is required")),
            }
        }
    }
}

/// Checks a reference to an object by group, kind and name.
fn typed_reference(reference: &At<'_>, errors: &mut Errors) {
    if reference.field("apiGroup").is_set() {
        reference.field("apiGroup").check(names::dns1123_subdomain, errors);
    }
    for field in ["kind", "name"] {
        reference.field(field).check_required(names::path_segment, errors);
    }
}

pub fn ingress_status(_context: &Context<'_>, ingress: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let [balancer, old] = [ingress, old].map(|object| object.down("status.loadBalancer"));
    service::load_balancer_status(&balancer, &old, errors);
}

pub fn ingress_class(_context: &Context<'_>, class: &At<'_>, errors: &mut Errors) {
    let spec = class.field("spec");
    let controller = spec.field("controller");
    if controller.len() > MAX_CONTROLLER_BYTES {
        errors.push(controller.too_long(MAX_CONTROLLER_BYTES));
    }
    domain_path(&controller, errors);
    let parameters = spec.field("parameters");
    if !parameters.is_set() {
        return;
    }
    typed_reference(&parameters, errors);
    let (scope, namespace) = (parameters.field("scope"), parameters.field("namespace"));
    match scope.text() {
        "Namespace" if !namespace.is_set() => {
            errors.push(namespace.required("`parameters.scope` is set to 'Namespace'"));
        }
        "Namespace" => namespace.check(names::dns1123_label, errors),
        "Cluster" if namespace.is_set() => {
            errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'"));
        }
        "Cluster" => {}
        _ if !scope.is_set() => errors.push(scope.required("")),
        _ => errors.push(scope.not_supported(&["Cluster", "Namespace"])),
    }
}

pub fn ingress_class_update(_context: &Context<'_>, class: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    class.down("spec.controller").check_unchanged(&old.down("spec.controller"), errors);
}

/// Checks a domain-prefixed path such as `acme.io/foo`.
pub fn domain_path(at: &At<'_>, errors: &mut Errors) {
    const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    match at.text().split_once('/') {
        _ if at.is_empty() => errors.push(at.required("")),
        Some((domain, path)) if !domain.is_empty() && !path.is_empty() => {
            let complaints = names::dns1123_subdomain(domain);
            errors.extend(complaints.into_iter().map(|complaint| at.invalid_as(&json!(domain), complaint)));
            if !path.bytes().all(fits) {
                let why = format!("Invalid path (regex used for validation is '{PATH}')");
                errors.push(at.invalid_as(&json!(path), why));
            }
        }
        _ => errors.push(at.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")")),
    }
}

/// Checks the name of an IPAddress, which is the address in canonical form.
pub fn ip_address_name(name: &str, _is_prefix: bool) -> Vec<String> {
    at::canonical_ip(name)
}

pub fn ip_address(_context: &Context<'_>, address: &At<'_>, errors: &mut Errors) {
    let parent = address.down("spec.parentRef");
    if !parent.is_set() {
        errors.push(parent.required(""));
        return;
    }
    if !parent.field("group").is_empty() {
        parent.field("group").check(names::dns1123_subdomain, errors);
    }
    for field in ["resource", "name"] {
        parent.field(field).check_required(names::path_segment, errors);
    }
    if !parent.field("namespace").is_empty() {
        parent.field("namespace").check(names::path_segment, errors);
    }
}

pub fn ip_address_update(_context: &Context<'_>, address: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    address.down("spec.parentRef").check_unchanged(&old.down("spec.parentRef"), errors);
}

pub fn service_cidr(_context: &Context<'_>, range: &At<'_>, errors: &mut Errors) {
    let cidrs = range.down("spec.cidrs");
    if cidrs.is_empty() {
        errors.push(cidrs.required("at least one CIDR required"));
        return;
    }
    if cidrs.len() > 2 {
        let spec = format!("{{\"CIDRs\":{}}}", cidrs.value);
        errors.push(cidrs.invalid_shown(spec, "may only hold up to 2 values"));
        return;
    }
    cidrs.items().for_each(|range| range.check(at::canonical_cidr, errors));
    let families: Vec<bool> =
        cidrs.items().filter_map(|range| Some(at::lenient_cidr(range.text())?.addr().is_ipv4())).collect();
    if let [first, second] = families.as_slice()
        && first == second
    {
        errors.push(
            cidrs.invalid("may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"),
        );
    }
}

/// Checks an update of a ServiceCIDR. It may add a range of the second IP family, and change nothing else.
pub fn service_cidr_update(context: &Context<'_>, range: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (new, before) = (range.down("spec.cidrs"), old.down("spec.cidrs"));
    if new.len() != before.len() && (before.len(), new.len()) != (1, 2) {
        errors.push(new.invalid(at::IMMUTABLE));
        return;
    }
    for (cidr, old_cidr) in new.items().zip(before.items()) {
        if cidr.value != old_cidr.value {
            errors.push(cidr.invalid(at::IMMUTABLE));
        }
    }
    if new.len() > before.len() {
        service_cidr(context, range, errors);
    }
}

#[cfg(test)]
mod tests;
