//! Services: ports, addresses and families, traffic policies, and which type may have what.
//!
//! Corresponds to ValidateService and ValidateServiceUpdate of pkg/apis/core/validation.

use super::at::{At, Errors, check_ip, check_port_number, check_port_number_or_name};
use super::pod::containers::PROTOCOLS;
use super::service_addresses::addresses;
use crate::registry::strategy::WriteContext;
use ipnet::IpNet;
use proto::meta::names;
use proto::meta::status::FieldError;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::IpAddr;

type Context<'a> = WriteContext<'a>;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const POLICIES: &[&str] = &["Cluster", "Local"];
const DISTRIBUTIONS: &[&str] = &["PreferClose", "PreferSameZone", "PreferSameNode"];
/// The kubelet's own port: some clouds would lead it outside.
const KUBELET_PORT: i64 = 10250;
const MAX_AFFINITY_S: i64 = 86400;

/// What a Service may be called: a label, so that it is one step of a DNS name.
pub fn name(name: &str, is_prefix: bool) -> Vec<String> {
    if name.contains('.') {
        return vec!["must not contain dots".to_owned()];
    }
    super::object_meta::label(name, is_prefix)
}

fn is_headless(spec: &At<'_>) -> bool {
    let ips = spec.field("clusterIPs");
    ips.len() == 1 && ips.items().all(|ip| ip.text() == "None")
}

pub fn service(_context: &Context<'_>, service: &At<'_>, errors: &mut Errors) {
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
    load_balancer(&spec, kind, errors);
    traffic(&spec, kind, errors);
}

fn by_type(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    if kind == "LoadBalancer" {
        for port in spec.field("ports").items().map(|port| port.field("port")) {
            if port.integer() == Some(KUBELET_PORT) {
                let why = "may not expose port 10250 externally since it is used by kubelet";
                errors.push(port.invalid(why));
            }
        }
    }
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

/// Addresses that nobody outside could reach.
pub fn check_endpoint_ip(at: &At<'_>, errors: &mut Errors) {
    let Ok(ip) = at.text().parse::<IpAddr>() else { return };
    let (link_local, link_local_multicast) = match ip {
        IpAddr::V4(ip) => (ip.is_link_local(), ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => (ip.segments()[0] & 0xffc0 == 0xfe80, ip.segments()[0] & 0xff0f == 0xff02),
    };
    if ip.is_unspecified() {
        errors.push(at.invalid(format!("may not be unspecified ({ip})")));
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
        check_ip(&ip, errors);
        check_endpoint_ip(&ip, errors);
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

fn load_balancer(spec: &At<'_>, kind: &str, errors: &mut Errors) {
    const ONLY: &str = "may only be used when `type` is 'LoadBalancer'";
    let ranges = spec.field("loadBalancerSourceRanges");
    // Kubernetes writes this path with a capital.
    let ranges = At::new("spec.LoadBalancerSourceRanges", ranges.value);
    if !ranges.is_empty() {
        if kind != "LoadBalancer" {
            errors.push(ranges.forbidden(ONLY));
        }
        for range in ranges.items() {
            if range.text().trim().parse::<IpNet>().is_err() {
                errors.push(range.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"));
            }
        }
    }
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    match (kind == "LoadBalancer", allocate.is_set()) {
        (false, true) => errors.push(allocate.forbidden(ONLY)),
        (true, false) => errors.push(allocate.required("")),
        _ => {}
    }
    let class = spec.field("loadBalancerClass");
    if class.is_set() {
        if kind != "LoadBalancer" {
            errors.push(class.forbidden(ONLY));
        } else {
            class.check(names::qualified_name, errors);
        }
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

/// What a Service was given stays; only a second family may come and go.
pub fn update(_context: &Context<'_>, service: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    let (spec, before) = (service.field("spec"), old.field("spec"));
    let external = |spec: &At<'_>| spec.field("type").text() == "ExternalName";
    if !external(&spec) && !external(&before) {
        if !(is_headless(&spec) && is_headless(&before)) {
            kept(&spec.field("clusterIPs"), &before.field("clusterIPs"), "primary clusterIP can not be unset", errors);
        }
        kept(&spec.field("ipFamilies"), &before.field("ipFamilies"), "primary ipFamily can not be unset", errors);
    }
    let checked = [&spec, &before].iter().all(|spec| {
        spec.field("type").text() == "LoadBalancer" && spec.field("externalTrafficPolicy").text() == "Local"
    });
    let check = spec.field("healthCheckNodePort");
    if checked && check.value != before.field("healthCheckNodePort").value {
        errors.push(check.forbidden("field is immutable"));
    }
    let both = [&spec, &before].iter().all(|spec| spec.field("type").text() == "LoadBalancer");
    let (class, old_class) = (spec.field("loadBalancerClass"), before.field("loadBalancerClass"));
    if both && class.value != old_class.value {
        errors.push(class.invalid("may not change once set"));
    }
}

fn kept(list: &At<'_>, old: &At<'_>, unset: &str, errors: &mut Errors) {
    let Some(first) = old.items().next() else { return };
    let at = At::new(format!("{}[0]", list.path), list.value);
    match list.items().next() {
        None => errors.push(at.invalid_as(&if list.is_set() { list.value.clone() } else { json!(null) }, unset)),
        Some(now) if now.value != first.value => errors.push(at.invalid("may not change once set")),
        Some(_) => {}
    }
}

pub fn status(_context: &Context<'_>, service: &At<'_>, _old: &At<'_>, errors: &mut Errors) {
    let balancer = service.down("status.loadBalancer");
    if service.down("spec.type").text() != "LoadBalancer" && !balancer.field("ingress").is_empty() {
        errors.push(balancer.field("ingress").forbidden("may only be used when `spec.type` is \"LoadBalancer\""));
        return;
    }
    load_balancer_status(&balancer, errors);
}

/// Where traffic enters; also for Ingresses.
pub fn load_balancer_status(balancer: &At<'_>, errors: &mut Errors) {
    for ingress in balancer.field("ingress").items() {
        let (ip, mode, host) = (ingress.field("ip"), ingress.field("ipMode"), ingress.field("hostname"));
        if !ip.is_empty() {
            check_ip(&ip, errors);
        }
        if mode.is_set() && ip.is_empty() {
            errors.push(mode.forbidden("may not be specified when `ip` is not set"));
        }
        mode.check_optional_enum(&["Proxy", "VIP"], errors);
        if !host.is_empty() {
            host.check(names::dns1123_subdomain, errors);
            if host.text().parse::<IpAddr>().is_ok() {
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
