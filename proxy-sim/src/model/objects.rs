//! Converts Services and EndpointSlices to service ports and endpoints.
//!
//! Corresponds to newServicePortMap of pkg/proxy/servicechangetracker.go and to endpointslicecache.go.

use super::{Endpoint, ServicePort, ServicePortName};
use ipnet::Ipv4Net;
use proto::kinds::api::core::v1::{Service, ServiceSpec};
use proto::kinds::api::discovery::v1::{Endpoint as ApiEndpoint, EndpointSlice};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// The label by which a slice names its Service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// A Service or slice with one of these labels is left to another proxy, or to none.
const FOREIGN_LABELS: [&str; 2] = ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];
/// Duration of ClientIP affinity when the Service names none.
const DEFAULT_AFFINITY_S: i32 = 10_800;

pub fn key_of(service: &Service) -> (String, String) {
    let meta = &service.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

fn is_foreign(labels: Option<&BTreeMap<String, String>>) -> bool {
    labels.is_some_and(|labels| FOREIGN_LABELS.iter().any(|label| labels.contains_key(*label)))
}

/// Returns namespace and name of the Service that a slice belongs to; `None` for a slice that is left to others.
pub fn service_of(slice: &EndpointSlice) -> Option<(String, String)> {
    let labels = slice.metadata.labels.as_ref().filter(|labels| !is_foreign(Some(labels)))?;
    Some((slice.metadata.namespace.clone()?, labels.get(SERVICE_NAME_LABEL)?.clone()))
}

/// Returns the ports of a Service that a proxy programs. A headless, ExternalName or foreign Service has none.
pub fn service_ports(service: &Service) -> Vec<(ServicePortName, ServicePort)> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let Some(cluster_ip) = cluster_ip(spec) else { return Vec::new() };
    if spec.type_.as_deref() == Some("ExternalName") || is_foreign(service.metadata.labels.as_ref()) {
        return Vec::new();
    }
    let (namespace, name) = key_of(service);
    let is_local = |policy: &Option<String>| policy.as_deref() == Some("Local");
    let checks_health = spec.type_.as_deref() == Some("LoadBalancer") && is_local(&spec.external_traffic_policy);
    let template = ServicePort {
        cluster_ip,
        port: 0,
        node_port: 0,
        external_ips: spec.external_ips.iter().flatten().filter(|ip| is_v4(ip)).cloned().collect(),
        load_balancer_ips: load_balancer_ips(service),
        load_balancer_source_ranges: source_ranges(spec),
        affinity_s: affinity_s(spec),
        internal_local: is_local(&spec.internal_traffic_policy),
        external_local: is_local(&spec.external_traffic_policy),
        health_check_node_port: port_number(spec.health_check_node_port.filter(|_| checks_health).unwrap_or(0)),
    };
    let ports = spec.ports.iter().flatten().map(|port| {
        let key = ServicePortName {
            namespace: namespace.clone(),
            name: name.clone(),
            port: port.name.clone().unwrap_or_default(),
            protocol: lower_case(port.protocol.as_deref()),
        };
        let (number, node_port) = (port_number(port.port), port_number(port.node_port.unwrap_or(0)));
        (key, ServicePort { port: number, node_port, ..template.clone() })
    });
    ports.collect()
}

// Deviation: in a dual-stack cluster, rules are made for IPv4 only.
fn is_v4(ip: &str) -> bool {
    ip.parse::<Ipv4Addr>().is_ok()
}

/// Returns the first cluster IP of the family; `None` for a headless Service.
fn cluster_ip(spec: &ServiceSpec) -> Option<String> {
    spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten()).find(|ip| is_v4(ip)).cloned()
}

fn affinity_s(spec: &ServiceSpec) -> Option<i32> {
    (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let client_ip = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        client_ip.and_then(|c| c.timeout_seconds).unwrap_or(DEFAULT_AFFINITY_S)
    })
}

fn source_ranges(spec: &ServiceSpec) -> Vec<String> {
    let ranges = spec.load_balancer_source_ranges.iter().flatten();
    ranges.filter_map(|range| range.trim().parse::<Ipv4Net>().ok()).map(|net| net.trunc().to_string()).collect()
}

/// Returns the load balancer's addresses that the proxy handles itself (`ipMode: VIP`, the default).
fn load_balancer_ips(service: &Service) -> Vec<String> {
    let ingress = service.status.as_ref().and_then(|s| s.load_balancer.as_ref()).and_then(|l| l.ingress.as_ref());
    let vips = ingress.into_iter().flatten().filter(|i| i.ip_mode.as_deref() != Some("Proxy"));
    vips.filter_map(|i| i.ip.clone()).filter(|ip| is_v4(ip)).collect()
}

fn port_number(port: i32) -> u16 {
    u16::try_from(port).unwrap_or(0)
}

fn lower_case(protocol: Option<&str>) -> String {
    protocol.unwrap_or("TCP").to_ascii_lowercase()
}

/// Returns the endpoints of one service port from all its slices. Of two with the same address and port, the first
/// counts.
pub fn endpoints_of(service: &ServicePortName, slices: &[Arc<EndpointSlice>]) -> Vec<Endpoint> {
    let mut found: BTreeMap<String, Endpoint> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.address_type == "IPv4") {
        for port in slice.ports.iter().flatten() {
            let is_same = port.name.as_deref().unwrap_or_default() == service.port
                && lower_case(port.protocol.as_deref()) == service.protocol;
            let Some(number) = port.port.filter(|_| is_same) else { continue };
            for endpoint in slice.endpoints.iter().flatten() {
                if let Some(endpoint) = endpoint_of(endpoint, port_number(number)) {
                    found.entry(endpoint.to_string()).or_insert(endpoint);
                }
            }
        }
    }
    found.into_values().collect()
}

fn endpoint_of(endpoint: &ApiEndpoint, port: u16) -> Option<Endpoint> {
    let (conditions, hints) = (endpoint.conditions.as_ref(), endpoint.hints.as_ref());
    let zones = hints.and_then(|hints| hints.for_zones.as_ref()).into_iter().flatten();
    let nodes = hints.and_then(|hints| hints.for_nodes.as_ref()).into_iter().flatten();
    Some(Endpoint {
        ip: endpoint.addresses.first()?.clone(),
        port,
        node: endpoint.node_name.clone().unwrap_or_default(),
        ready: conditions.and_then(|c| c.ready).unwrap_or(true),
        serving: conditions.and_then(|c| c.serving).unwrap_or(true),
        terminating: conditions.and_then(|c| c.terminating).unwrap_or(false),
        zone_hints: zones.map(|zone| zone.name.clone()).collect(),
        node_hints: nodes.map(|node| node.name.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::Kind;
    use serde_json::{Value, json};

    fn ports(mut service: Value) -> Vec<(ServicePortName, ServicePort)> {
        service["metadata"]["name"] = json!("web");
        if service["spec"]["ports"].is_null() {
            service["spec"]["ports"] = json!([{"port": 80, "nodePort": 30080}]);
        }
        service_ports(&Service::decode_value(service).unwrap())
    }

    #[test]
    fn only_what_this_proxy_proxies_has_ports() {
        for (service, count) in [
            (json!({"spec": {"clusterIP": "10.0.0.9"}}), 1),
            (json!({"spec": {"clusterIP": "None"}}), 0),
            (json!({"spec": {"clusterIP": ""}}), 0),
            (json!({"spec": {"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "10.0.0.9"]}}), 1),
            (json!({"spec": {"clusterIP": "fd00::1", "clusterIPs": ["fd00::1"]}}), 0),
            (json!({"spec": {"type": "ExternalName", "externalName": "x.example", "clusterIP": "10.0.0.9"}}), 0),
            (json!({"metadata": {"labels": {FOREIGN_LABELS[0]: "mesh"}}, "spec": {"clusterIP": "10.0.0.9"}}), 0),
            (json!({"metadata": {"labels": {FOREIGN_LABELS[1]: ""}}, "spec": {"clusterIP": "10.0.0.9"}}), 0),
        ] {
            assert_eq!(ports(service.clone()).len(), count, "{service}");
        }
    }

    #[test]
    fn addresses_of_another_family_are_left_out() {
        let service = json!({
            "spec": {"clusterIP": "10.0.0.9", "type": "LoadBalancer", "externalIPs": ["1.2.3.4", "fd00::4"],
                "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 31000,
                "loadBalancerSourceRanges": [" 10.1.2.3/8 ", "fd00::/8"]},
            "status": {"loadBalancer": {"ingress": [
                {"ip": "5.6.7.8"}, {"ip": "5.6.7.9", "ipMode": "Proxy"}, {"ip": "fd00::5"}, {"hostname": "x"}]}},
        });
        let (_, port) = ports(service).remove(0);
        assert_eq!((port.external_ips, port.load_balancer_ips), (vec!["1.2.3.4".into()], vec!["5.6.7.8".to_owned()]));
        assert_eq!(port.load_balancer_source_ranges, ["10.0.0.0/8"]);
        assert_eq!(port.health_check_node_port, 0, "only where the policy is Local");
    }

    #[test]
    fn endpoints_are_told_apart_and_ordered_by_their_text() {
        let slice = |name: &str, value: Value| {
            let labels = json!({SERVICE_NAME_LABEL: "web"});
            let mut slice =
                json!({"metadata": {"namespace": "n", "name": name, "labels": labels}, "addressType": "IPv4"});
            for (key, part) in value.as_object().unwrap() {
                slice[key] = part.clone();
            }
            Arc::new(EndpointSlice::decode_value(slice).unwrap())
        };
        let address = |ip: &str, ready: Value| json!({"addresses": [ip], "conditions": {"ready": ready}});
        let web = ServicePortName { protocol: "tcp".into(), ..Default::default() };
        let slices = [
            slice(
                "a",
                json!({"ports": [{"port": 80}], "endpoints": [address("10.0.0.9", json!(true)), address("10.0.0.10", json!(null))]}),
            ),
            slice("b", json!({"ports": [{"port": 80}], "endpoints": [address("10.0.0.9", json!(false))]})),
            slice(
                "c",
                json!({"ports": [{}, {"port": 53, "protocol": "UDP"}], "endpoints": [address("10.0.0.7", json!(true))]}),
            ),
        ];
        let found = endpoints_of(&web, &slices);
        let shown: Vec<(String, bool, bool)> = found.iter().map(|e| (e.to_string(), e.ready, e.serving)).collect();
        assert_eq!(shown, [("10.0.0.10:80".into(), true, true), ("10.0.0.9:80".into(), true, true)]);
    }
}
