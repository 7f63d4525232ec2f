//! The load balancer that a Service asks for.
//!
//! Corresponds to k8s.io/cloud-provider/service/helpers and to DefaultLoadBalancerName of k8s.io/cloud-provider.

use ipnet::IpNet;
use proto::Kind;
use proto::kinds::api::core::v1::{Service, ServicePort, ServiceSpec};
use simulated_cloud::model::{BalancedPort, LoadBalancerSpec};
use std::net::Ipv4Addr;

const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const EVERYWHERE: &str = "0.0.0.0/0";
/// Longest name of a load balancer.
const MAX_NAME: usize = 32;

/// Returns true if the service asks this cloud for a load balancer.
pub fn is_wanted(service: &Service) -> bool {
    let spec = service.spec.as_ref();
    spec.is_some_and(|spec| spec.type_.as_deref() == Some("LoadBalancer") && spec.load_balancer_class.is_none())
}

/// Returns the name of the service's load balancer. It follows from the uid alone, so that a later service of the same name
/// has another one.
pub fn name(uid: &str) -> String {
    let mut name = format!("a{}", uid.replace('-', ""));
    name.truncate(MAX_NAME);
    name
}

/// Returns what the service asks for, or what is wrong with it.
pub fn wanted(service: &Service, backends: &[String]) -> Result<LoadBalancerSpec, String> {
    let no_spec = ServiceSpec::default();
    let spec = service.spec.as_ref().unwrap_or(&no_spec);
    let requested = spec.load_balancer_ip.as_deref().filter(|ip| !ip.is_empty());
    let requested_address = match requested.map(|ip| (ip, ip.parse::<Ipv4Addr>())) {
        Some((ip, Err(_))) => return Err(format!("loadBalancerIP {ip:?} is no IPv4 address")),
        Some((_, Ok(address))) => Some(address),
        None => None,
    };
    let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
    let health_check_port = spec.health_check_node_port.filter(|_| is_local).and_then(port);
    Ok(LoadBalancerSpec {
        description: service.key(),
        requested_address,
        ports: spec.ports.iter().flatten().map(balanced).collect(),
        source_ranges: source_ranges(service, spec)?,
        health_check_port,
        is_sticky: spec.session_affinity.as_deref() == Some("ClientIP"),
        backends: backends.to_vec(),
    })
}

fn balanced(wanted: &ServicePort) -> BalancedPort {
    BalancedPort {
        name: wanted.name.clone().unwrap_or_default(),
        protocol: wanted.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
        port: port(wanted.port).unwrap_or_default(),
        node_port: wanted.node_port.and_then(port),
    }
}

fn port(number: i32) -> Option<u16> {
    u16::try_from(number).ok().filter(|port| *port != 0)
}

fn source_ranges(service: &Service, spec: &ServiceSpec) -> Result<Vec<String>, String> {
    let listed = spec.load_balancer_source_ranges.as_deref().unwrap_or_default();
    if !listed.is_empty() {
        let ranges: Vec<String> = listed.iter().map(|range| range.trim().to_owned()).collect();
        return match ranges.iter().all(|range| range.parse::<IpNet>().is_ok()) {
            true => Ok(ranges),
            false => Err(format!(
                "service.Spec.LoadBalancerSourceRanges: [{}] is not valid. Expecting a list of IP ranges. For example, \
                 10.0.0.0/24",
                listed.join(" ")
            )),
        };
    }
    let annotations = service.metadata().annotations.as_ref();
    let text = annotations.and_then(|all| all.get(SOURCE_RANGES)).map(|text| text.trim()).unwrap_or_default();
    let text = if text.is_empty() { EVERYWHERE } else { text };
    let ranges: Vec<String> = text.split(',').map(|range| range.trim().to_owned()).collect();
    match ranges.iter().all(|range| range.parse::<IpNet>().is_ok()) {
        true => Ok(ranges),
        false => Err(format!(
            "{SOURCE_RANGES}: {text} is not valid. Expecting a comma-separated list of source IP ranges. For example, \
             10.0.0.0/24,192.168.2.0/24"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use serde_json::{Value, json};

    fn service(spec: Value, annotation: Option<&str>) -> Service {
        let mut service = Service { metadata: fixture::meta("web"), ..Service::default() };
        service.spec = Some(serde_json::from_value(spec).unwrap());
        if let Some(text) = annotation {
            fixture::annotate(&mut service, &[(SOURCE_RANGES, text)]);
        }
        service
    }

    #[test]
    fn a_class_names_another_implementation() {
        for (spec, expected) in [
            (json!({"type": "LoadBalancer"}), true),
            (json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/lb"}), false),
            (json!({"type": "NodePort"}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_wanted(&service(spec.clone(), None)), expected, "{spec}");
        }
        assert_eq!(name("0f3c9a1e-8f0a-4a6e-9a53-6f0e6f1c2b3d"), "a0f3c9a1e8f0a4a6e9a536f0e6f1c2b3");
    }

    #[test]
    fn a_service_is_read_field_by_field() {
        let spec = json!({
            "type": "LoadBalancer", "loadBalancerIP": "203.0.113.9", "sessionAffinity": "ClientIP",
            "externalTrafficPolicy": "Local", "healthCheckNodePort": 31000,
            "ports": [{"name": "http", "port": 80, "nodePort": 30080}, {"name": "dns", "port": 53, "protocol": "UDP"}],
        });
        let found = wanted(&service(spec.clone(), None), &["n1".to_owned()]).unwrap();
        let expected = json!({
            "description": "default/web", "requestedAddress": "203.0.113.9", "healthCheckPort": 31000, "isSticky": true,
            "ports": [
                {"name": "http", "protocol": "TCP", "port": 80, "nodePort": 30080},
                {"name": "dns", "protocol": "UDP", "port": 53, "nodePort": null},
            ],
            "sourceRanges": ["0.0.0.0/0"], "backends": ["n1"],
        });
        assert_eq!(json!(found), expected);
        let mut cluster = spec;
        cluster["externalTrafficPolicy"] = json!("Cluster");
        assert_eq!(wanted(&service(cluster, None), &[]).unwrap().health_check_port, None);
    }

    #[test]
    fn source_ranges_come_from_the_field_or_from_the_annotation() {
        let ranges = |spec: Value, annotation| wanted(&service(spec, annotation), &[]).map(|found| found.source_ranges);
        let field = json!({"loadBalancerSourceRanges": [" 10.0.0.0/8", "fd00::/8"]});
        assert_eq!(ranges(field, Some("1.0.0.0/8")).unwrap(), ["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(ranges(json!({}), Some("1.0.0.0/8, 2.0.0.0/8")).unwrap(), ["1.0.0.0/8", "2.0.0.0/8"]);
        let wrong = ranges(json!({"loadBalancerSourceRanges": ["x"]}), None).unwrap_err();
        assert!(wrong.starts_with("service.Spec.LoadBalancerSourceRanges: [x] is not valid."), "{wrong}");
        let wrong = ranges(json!({}), Some("x")).unwrap_err();
        assert!(
            wrong.starts_with("service.beta.kubernetes.io/load-balancer-source-ranges: x is not valid."),
            "{wrong}"
        );
        let wrong = wanted(&service(json!({"loadBalancerIP": "::1"}), None), &[]).unwrap_err();
        assert_eq!(wrong, r#"loadBalancerIP "::1" is no IPv4 address"#);
    }
}
