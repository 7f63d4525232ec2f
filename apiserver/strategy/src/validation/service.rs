//! Validates Services: ports, addresses and IP families, traffic policies, and the fields that each type allows.
//!
//! Corresponds to ValidateService and ValidateServiceUpdate of pkg/apis/core/validation.

use super::pod::containers::PROTOCOLS;
use super::service_addresses::addresses;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, check_ip, check_port_number, check_port_number_or_name, cidr, lenient_ip};
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

type Context<'a> = WriteContext<'a>;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const MAX_AFFINITY_S: i64 = 86400;

fn is_headless(spec: &At<'_>) -> bool {
    let ips = spec.field("clusterIPs");
    ips.len() == 1 && ips.items().all(|ip| ip.text() == "None")
}

pub fn service(_context: &Context<'_>, service: &At<'_>, errors: &mut Errors) {
    let annotations = service.down("metadata.annotations");
    let (hints, mode) = (annotations.key(TOPOLOGY_HINTS), annotations.key(TOPOLOGY_MODE));
    if hints.is_set() && mode.is_set() && hints.value != mode.value {
        errors.push(mode.invalid(format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified")));
    }
    let spec = service.field("spec");
    let kind = spec.field("type").text();
    if spec.field("ports").is_empty() && !is_headless(&spec) && kind != "ExternalName" {
        errors.push(spec.field("ports").required(""));
    }
    by_type(&spec, kind, errors);
    ports(&spec, errors);
    spec.field("selector").check_labels(errors);
    affinity(&spec, errors);
    errors.extend(addresses(&spec));
    external_ips(&spec, errors);
    spec.field("type").check_enum(TYPES, errors);
    port_conflicts(&spec, kind, errors);
    source_ranges(&spec, &annotations.key(SOURCE_RANGES), errors);
    load_balancer(&spec, kind, errors);
    traffic(&spec, kind, errors);
}

/// Checks the rules of the Service's type: no headless NodePort, and the fields of an ExternalName.
fn by_type(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    match kind {
        "LoadBalancer" | "NodePort" if is_headless(spec) => {
            let at = At::new("spec.clusterIPs[0]", &Value::Null);
            errors.push(at.invalid_as(&json!("None"), format!("may not be set to 'None' for {kind} services")));
        }
        "ExternalName" => {
            for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
                if !spec.field(field).is_empty() {
                    errors.push(spec.field(field).forbidden("may not be set for ExternalName services"));
                }
            }
            let name = spec.field("externalName");
            match name.text().strip_suffix('.').unwrap_or(name.text()) {
                "" => errors.push(name.required("")),
                text => {
                    let complaints = names::dns1123_subdomain(text);
                    errors.extend(complaints.into_iter().map(|complaint| name.invalid_as(&json!(text), complaint)));
                }
            }
        }
        _ => {}
    }
}

fn ports(spec: &At<'_>, errors: &mut Errors) {
    let many = spec.field("ports").len() > 1;
    let mut seen = BTreeSet::new();
    for port in spec.field("ports").items() {
        let name = port.field("name");
        if !name.is_empty() {
            name.check(names::dns1123_label, errors);
            if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
        } else if many {
            errors.push(name.required(""));
        }
        check_port_number(&port.field("port"), errors);
        port.field("protocol").check_enum(PROTOCOLS, errors);
        check_port_number_or_name(&port.field("targetPort"), errors);
        if port.field("appProtocol").is_set() {
            port.field("appProtocol").check(names::qualified_name, errors);
        }
    }
}

fn affinity(spec: &At<'_>, errors: &mut Errors) {
    let (affinity, config) = (spec.field("sessionAffinity"), spec.field("sessionAffinityConfig"));
    affinity.check_enum(&["ClientIP", "None"], errors);
    match affinity.text() {
        "ClientIP" => {
            let client = config.field("clientIP");
            let timeout = client.field("timeoutSeconds");
            if !config.is_set() || !client.is_set() || !timeout.is_set() {
                let missing = if !config.is_set() {
                    config
                } else if client.is_set() {
                    timeout
                } else {
                    client
                };
                errors.push(missing.required("when session affinity type is ClientIP"));
            } else if !(1..=MAX_AFFINITY_S).contains(&timeout.integer().unwrap_or(0)) {
                errors.push(timeout.invalid(format!("must be greater than 0 and less than {MAX_AFFINITY_S}")));
            }
        }
        "None" if config.is_set() => {
            errors.push(config.forbidden("must not be set when session affinity is None"));
        }
        _ => {}
    }
}

/// Refuses addresses that other hosts cannot reach, such as loopback ones.
pub fn check_endpoint_ip(at: &At<'_>, errors: &mut Errors) {
    let Ok(ip) = at.text().parse::<IpAddr>() else { return };
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.segments()[0] & 0xffc0 == 0xfe80, ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.push(at.invalid(format!("may not be unspecified ({})", at.text())));
    }
    if ip.is_loopback() {
        errors.push(at.invalid("may not be in the loopback range (127.0.0.0/8, ::1/128)"));
    }
    if link_local {
        errors.push(at.invalid("may not be in the link-local range (169.254.0.0/16, fe80::/10)"));
    }
    if link_local_multicast {
        errors.push(at.invalid("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"));
    }
}

fn external_ips(spec: &At<'_>, errors: &mut Errors) {
    for ip in spec.field("externalIPs").items() {
        let before = errors.len();
        check_ip(&ip, errors);
        if errors.len() == before {
            check_endpoint_ip(&ip, errors);
        }
    }
}

fn port_conflicts(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let ports: Vec<At<'_>> = spec.field("ports").items().collect();
    let node_port = |port: &At<'_>| port.field("nodePort").integer().unwrap_or(0);
    if kind == "ClusterIP" {
        for port in ports.iter().filter(|port| node_port(port) != 0) {
            errors.push(port.field("nodePort").forbidden("may not be used when `type` is 'ClusterIP'"));
        }
    }
    let mut seen = BTreeSet::new();
    for port in ports.iter().filter(|port| node_port(port) != 0) {
        if !seen.insert((port.field("protocol").text(), node_port(port))) {
            errors.push(port.field("nodePort").duplicate());
        }
    }
    let mut seen = BTreeSet::new();
    for port in &ports {
        let (protocol, number) = (port.field("protocol").text(), port.field("port").integer().unwrap_or(0));
        if !seen.insert((protocol, number)) {
            errors.push(FieldError {
                field: port.path.clone(),
                reason: "FieldValueDuplicate",
                message: format!(
                    "Duplicate value: {{\"Name\":\"\",\"Protocol\":{protocol:?},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}"
                ),
            });
        }
    }
}

const FOR_LOAD_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

/// Checks the address ranges that may use a load balancer, in the field or else in the deprecated annotation.
fn source_ranges(spec: &At<'_>, annotation: &At<'_>, errors: &mut Errors) {
    // Kubernetes writes this path with a capital.
    let ranges = At::new("spec.LoadBalancerSourceRanges", spec.field("loadBalancerSourceRanges").value);
    let is_balancer = spec.field("type").text() == "LoadBalancer";
    if !ranges.is_empty() {
        if !is_balancer {
            errors.push(ranges.forbidden(FOR_LOAD_BALANCERS));
        }
        ranges.items().for_each(|range| check_range(&range, range.text(), errors));
    } else if annotation.is_set() {
        if !is_balancer {
            errors.push(annotation.forbidden(FOR_LOAD_BALANCERS));
        }
        let listed = annotation.text().split(',').filter(|_| !annotation.text().trim().is_empty());
        listed.for_each(|range| check_range(annotation, range, errors));
    }
}

/// Checks one range, without the spaces around it.
fn check_range(at: &At<'_>, range: &str, errors: &mut Errors) {
    let range = range.trim();
    errors.extend(cidr(range).into_iter().map(|complaint| at.invalid_as(&json!(range), complaint)));
}

fn load_balancer(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    match (kind == "LoadBalancer", allocate.is_set()) {
        (false, true) => errors.push(allocate.forbidden(FOR_LOAD_BALANCERS)),
        // Kubernetes reports this field without its parent.
        (true, false) => errors.push(At::new("allocateLoadBalancerNodePorts", allocate.value).required("")),
        _ => {}
    }
    load_balancer_class(spec, errors);
}

fn load_balancer_class(spec: &At<'_>, errors: &mut Errors) {
    let class = spec.field("loadBalancerClass");
    if !class.is_set() {
        return;
    }
    match spec.field("type").text() {
        "LoadBalancer" => class.check(names::qualified_name, errors),
        _ => errors.push(class.forbidden(FOR_LOAD_BALANCERS)),
    }
}

fn is_externally_accessible(spec: &At<'_>, kind: &str) -> bool {
    matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && !spec.field("externalIPs").is_empty())
}

fn traffic(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    let external = spec.field("externalTrafficPolicy");
    if is_externally_accessible(spec, kind) {
        external.check_enum(POLICIES, errors);
    } else if !external.is_empty() {
        errors.push(external.invalid("may only be set for externally-accessible services"));
    }
    let check = spec.field("healthCheckNodePort");
    let port = check.integer().unwrap_or(0);
    if kind == "LoadBalancer" && external.text() == "Local" {
        if port == 0 {
            errors.push(check.required(""));
        } else {
            check_port_number(&check, errors);
        }
    } else if port != 0 {
        let why = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(check.invalid(why));
    }
    let internal = spec.field("internalTrafficPolicy");
    if internal.is_set() {
        internal.check_optional_enum(POLICIES, errors);
    } else if matches!(kind, "NodePort" | "LoadBalancer" | "ClusterIP") {
        errors.push(internal.required(""));
    }
    spec.field("trafficDistribution").check_optional_enum(DISTRIBUTIONS, errors);
}

/// Refuses changes of the cluster IPs and IP families, except to add or to release those of the second family.
pub fn update(_context: &Context<'_>, service: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (service.field("spec"), old.field("spec"));
    let is = |kind: &str| [&spec, &before].map(|spec| spec.field("type").text() == kind);
    if is("ExternalName") == [false, false] {
        match [&spec, &before].map(is_headless) {
            [true, true] => {}
            headless => {
                immutable_ips(&spec, &before, errors);
                if headless == [false, false] {
                    immutable_families(&spec, &before, errors);
                }
            }
        }
    }
    let class = spec.field("loadBalancerClass");
    if is("LoadBalancer") == [true, true] && class.value != before.field("loadBalancerClass").value {
        errors.push(class.invalid("may not change once set"));
    }
    // Kubernetes checks the class twice: here and in `service`.
    load_balancer_class(&spec, errors);
    let is_local = |spec: &At<'_>| spec.field("externalTrafficPolicy").text() == "Local";
    let check = spec.field("healthCheckNodePort");
    let changed = check.integer().unwrap_or(0) != before.field("healthCheckNodePort").integer().unwrap_or(0);
    if is("LoadBalancer") == [true, true] && is_local(&spec) && is_local(&before) && changed {
        errors.push(check.forbidden("field is immutable"));
    }
}

const MAY_NOT_CHANGE: &str = "may not change once set";

/// Returns the path of an item, such as `spec.clusterIPs[0]`, with the value of the whole list.
fn at_index<'a>(list: &At<'a>, index: usize) -> At<'a> {
    At::new(format!("{}[{index}]", list.path), list.value)
}

/// Checks that a Service without a second address or family has the policy `SingleStack`.
fn check_single_stack(spec: &At<'_>, what: &str, errors: &mut Errors) {
    let policy = spec.field("ipFamilyPolicy");
    if policy.text() != "SingleStack" {
        errors.push(policy.invalid(format!("must be set to 'SingleStack' when releasing the secondary {what}")));
    }
}

fn immutable_ips(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (now, then) = (spec.field("clusterIPs"), before.field("clusterIPs"));
    let first = |list: &At<'_>| list.value.get(0).cloned();
    if now.len() == then.len() {
        for (index, (ip, old)) in now.items().zip(then.items()).enumerate() {
            if ip.value != old.value {
                errors.push(at_index(&now, index).invalid(MAY_NOT_CHANGE));
            }
        }
        return;
    }
    if now.is_empty() {
        errors.push(at_index(&now, 0).invalid("primary clusterIP can not be unset"));
    } else if !then.is_empty() && first(&now) != first(&then) {
        errors.push(at_index(&now, 0).invalid(MAY_NOT_CHANGE));
    }
    if now.len() < then.len() && now.len() == 1 {
        check_single_stack(spec, "clusterIP", errors);
    }
}

/// Refuses changes of the IP families. Kubernetes always reports the first family, and shows the addresses as the value
/// if the number of families changes.
fn immutable_families(spec: &At<'_>, before: &At<'_>, errors: &mut Errors) {
    let (now, then, ips) = (spec.field("ipFamilies"), before.field("ipFamilies"), spec.field("clusterIPs"));
    let first = at_index(&now, 0);
    if now.len() == then.len() {
        for _ in now.items().zip(then.items()).filter(|(now, then)| now.value != then.value) {
            errors.push(first.invalid(MAY_NOT_CHANGE));
        }
        return;
    }
    if now.len() < then.len() && ips.is_empty() {
        errors.push(first.invalid("primary ipFamily can not be unset"));
    }
    if !now.is_empty() && !then.is_empty() && now.value.get(0) != then.value.get(0) {
        errors.push(first.invalid_as(ips.value, MAY_NOT_CHANGE));
    }
    if now.len() < then.len() && now.len() == 1 {
        check_single_stack(spec, "ipFamily", errors);
    }
}

pub fn status(_context: &Context<'_>, service: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let balancer = service.down("status.loadBalancer");
    if service.down("spec.type").text() != "LoadBalancer" && !balancer.field("ingress").is_empty() {
        errors.push(balancer.field("ingress").forbidden("may only be used when `spec.type` is \"LoadBalancer\""));
        return;
    }
    load_balancer_status(&balancer, &old.down("status.loadBalancer"), errors);
}

/// Checks the status of a load balancer, of a Service or an Ingress. An invalid address of the old status may stay.
pub fn load_balancer_status(balancer: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let old: Vec<At<'_>> = old.field("ingress").items().collect();
    for ingress in balancer.field("ingress").items() {
        let (ip, mode, host) = (ingress.field("ip"), ingress.field_if_defined("ipMode"), ingress.field("hostname"));
        if !ip.is_empty() && !old.iter().any(|old| old.field("ip").text() == ip.text()) {
            check_ip(&ip, errors);
        }
        if mode.is_set() && ip.is_empty() {
            errors.push(mode.forbidden("may not be specified when `ip` is not set"));
        } else {
            mode.check_optional_enum(&["Proxy", "VIP"], errors);
        }
        if !host.is_empty() {
            host.check(names::dns1123_subdomain, errors);
            if lenient_ip(host.text()).is_some() {
                errors.push(host.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
}

pub fn warnings(_context: &Context<'_>, service: &At<'_>, _old: Option<&At<'_>>) -> Vec<String> {
    let spec = service.field("spec");
    let mut found = Vec::new();
    if spec.field("trafficDistribution").text() == "PreferClose" {
        found.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    if !spec.field("externalIPs").is_empty() {
        found.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if is_headless(&spec) {
        for (field, name) in [("loadBalancerIP", "spec.loadBalancerIP"), ("externalIPs", "spec.externalIPs")] {
            if !spec.field(field).is_empty() {
                found.push(format!("{name} is ignored for headless services"));
            }
        }
        if !matches!(spec.field("sessionAffinity").text(), "" | "None") {
            found.push("spec.SessionAffinity is ignored for headless services".to_owned());
        }
    }
    if !matches!(spec.field("type").text(), "ExternalName") && !spec.field("externalName").is_empty() {
        found.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    found
}

#[cfg(test)]
mod tests;
