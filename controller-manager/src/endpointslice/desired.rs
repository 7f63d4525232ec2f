//! The desired endpoints of a Service, grouped by address type and ports.
//!
//! Corresponds to reconcileByAddressType and podToEndpoint in k8s.io/endpointslice.

use crate::service;
use controller_base::pod;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod, Service};
use proto::kinds::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use proto::meta::node_labels::ZONE;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The address type and ports that all endpoints of one slice share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Group {
    /// `IPv4` or `IPv6`.
    pub address_type: String,
    pub ports: Vec<Port>,
}

impl Group {
    /// Returns the group of a slice's endpoints.
    pub fn of(slice: &EndpointSlice) -> Self {
        let mut ports: Vec<Port> = slice.ports.iter().flatten().map(Port::of).collect();
        ports.sort();
        Self { address_type: slice.address_type.clone(), ports }
    }
}

/// `EndpointPort` in sortable form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    pub name: String,
    pub port: Option<i32>,
    pub protocol: String,
    pub app_protocol: Option<String>,
}

impl Port {
    pub fn of(port: &EndpointPort) -> Self {
        Self {
            name: port.name.clone().unwrap_or_default(),
            port: port.port,
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            app_protocol: port.app_protocol.clone(),
        }
    }

    pub fn to_endpoint_port(&self) -> EndpointPort {
        EndpointPort {
            name: Some(self.name.clone()),
            port: self.port,
            protocol: Some(self.protocol.clone()),
            app_protocol: self.app_protocol.clone(),
        }
    }
}

/// The identity of an endpoint, which does not depend on its conditions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity {
    addresses: Vec<String>,
    hostname: Option<String>,
    /// Namespace, name and uid of the pod.
    target: (String, String, String),
}

pub fn identity(endpoint: &Endpoint) -> Identity {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort();
    let target = endpoint.target_ref.clone().unwrap_or_default();
    let target = (target.namespace, target.name, target.uid);
    Identity {
        addresses,
        hostname: endpoint.hostname.clone(),
        target: (target.0.unwrap_or_default(), target.1.unwrap_or_default(), target.2.unwrap_or_default()),
    }
}

/// Endpoints by group, and within a group by identity.
pub type Desired = BTreeMap<Group, BTreeMap<Identity, Endpoint>>;

#[derive(Debug)]
pub struct Backends {
    pub desired: Desired,
    /// Pods that are left out because their node is not in the cache, each with the node's name.
    pub on_unknown_nodes: Vec<(String, String)>,
}

/// Returns the endpoints of a service. `node` finds a pod's node in the cache.
pub fn backends(service: &Service, pods: &[Arc<Pod>], node: impl Fn(&str) -> Option<Arc<Node>>) -> Backends {
    let mut backends = Backends { desired: Desired::new(), on_unknown_nodes: Vec::new() };
    for pod in pods.iter().filter(|pod| service::is_endpoint(pod, true)) {
        let node_name = pod::node_name(pod);
        let node = Some(node_name).filter(|name| !name.is_empty()).and_then(&node);
        if node.is_none() && !node_name.is_empty() && !service::publishes_not_ready(service) {
            backends.on_unknown_nodes.push((pod.name().to_owned(), node_name.to_owned()));
            continue;
        }
        for family in service::ip_families(service) {
            if let Some(address) = service::pod_ip(pod, family) {
                let endpoint = endpoint(service, pod, address, node.as_deref());
                let group = Group { address_type: family.to_owned(), ports: ports(service, pod) };
                backends.desired.entry(group).or_default().insert(identity(&endpoint), endpoint);
            }
        }
    }
    backends
}

fn ports(service: &Service, pod: &Pod) -> Vec<Port> {
    let found = service::ports(service).iter().filter_map(|port| {
        Some(Port {
            name: port.name.clone().unwrap_or_default(),
            port: Some(service::find_port(pod, port)?),
            protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
    });
    let mut ports: Vec<Port> = found.collect();
    ports.sort();
    ports
}

fn endpoint(service: &Service, pod: &Pod, address: &str, node: Option<&Node>) -> Endpoint {
    let (serving, terminating) = (pod::is_ready(pod), pod.is_deleting());
    let ready = service::publishes_not_ready(service) || (serving && !terminating);
    let zone = node.and_then(|node| node.metadata.labels.as_ref()?.get(ZONE)).cloned();
    let node_name = Some(pod::node_name(pod).to_owned()).filter(|name| !name.is_empty());
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hints: if ready { hints(service, zone.as_deref(), node_name.as_deref()) } else { None },
        hostname: service::hostname(pod, service).map(str::to_owned),
        target_ref: Some(service::pod_reference(pod)),
        node_name,
        zone,
        deprecated_topology: None,
    }
}

/// Returns the zones and nodes in which `spec.trafficDistribution` asks proxies to keep traffic.
fn hints(service: &Service, zone: Option<&str>, node: Option<&str>) -> Option<EndpointHints> {
    let distribution = service.spec.as_ref()?.traffic_distribution.as_deref()?;
    let for_zones = zone.map(|zone| vec![ForZone { name: zone.to_owned() }]);
    let for_nodes = node.map(|node| vec![ForNode { name: node.to_owned() }]);
    let hints = match distribution {
        "PreferClose" | "PreferSameZone" => EndpointHints { for_zones, for_nodes: None },
        "PreferSameNode" => EndpointHints { for_zones, for_nodes },
        _ => return None,
    };
    (hints != EndpointHints::default()).then_some(hints)
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::{ServicePort, ServiceSpec};

    fn service(change: impl FnOnce(&mut ServiceSpec)) -> Service {
        let mut spec = ServiceSpec {
            ports: Some(vec![ServicePort { port: 80, ..ServicePort::default() }]),
            ip_families: Some(vec!["IPv4".to_owned()]),
            ..ServiceSpec::default()
        };
        change(&mut spec);
        Service { metadata: fixture::meta("web"), spec: Some(spec), ..Service::default() }
    }

    fn pod(is_ready: bool, is_deleting: bool) -> Pod {
        let mut pod = fixture::pod("web-a");
        fixture::set_phase(&mut pod, "Running");
        pod.status.as_mut().unwrap().pod_ip = Some("10.244.1.7".to_owned());
        pod.spec.as_mut().unwrap().node_name = Some("node-1".to_owned());
        if is_ready {
            fixture::set_ready(&mut pod, fixture::at(0));
        }
        pod.metadata.deletion_timestamp = is_deleting.then(|| fixture::time(1));
        pod
    }

    fn node(name: &str) -> Option<Arc<Node>> {
        let mut node = Node { metadata: fixture::meta(name), ..Node::default() };
        node.metadata.labels = Some(fixture::labels(&[(ZONE, "zone-a")]));
        (name == "node-1").then(|| Arc::new(node))
    }

    fn only(backends: Backends) -> Endpoint {
        let mut endpoints = backends.desired.into_values().flat_map(BTreeMap::into_values);
        endpoints.next().unwrap()
    }

    #[test]
    fn conditions_follow_readiness_and_deletion() {
        let cases = [
            // pod ready, deleting, publish not ready => ready, serving, terminating
            (true, false, false, (true, true, false)),
            (false, false, false, (false, false, false)),
            (true, true, false, (false, true, true)),
            (false, true, false, (false, false, true)),
            (false, false, true, (true, false, false)),
            (false, true, true, (true, false, true)),
        ];
        for (is_ready, is_deleting, publish, expected) in cases {
            let service = service(|spec| spec.publish_not_ready_addresses = Some(publish));
            let endpoint = only(backends(&service, &[Arc::new(pod(is_ready, is_deleting))], node));
            let conditions = endpoint.conditions.unwrap();
            let got = (conditions.ready.unwrap(), conditions.serving.unwrap(), conditions.terminating.unwrap());
            assert_eq!(got, expected, "ready {is_ready}, deleting {is_deleting}, publish {publish}");
        }
    }

    #[test]
    fn topology_comes_from_the_node() {
        let endpoint = only(backends(&service(|_| {}), &[Arc::new(pod(true, false))], node));
        assert_eq!(endpoint.node_name.as_deref(), Some("node-1"));
        assert_eq!(endpoint.zone.as_deref(), Some("zone-a"));
        assert_eq!(endpoint.hints, None);
        let close = service(|spec| spec.traffic_distribution = Some("PreferClose".to_owned()));
        let endpoint = only(backends(&close, &[Arc::new(pod(true, false))], node));
        assert_eq!(endpoint.hints.unwrap().for_zones.unwrap()[0].name, "zone-a");
    }

    #[test]
    fn pods_of_unknown_nodes_wait_unless_not_ready_ones_are_published() {
        let mut stray = pod(true, false);
        stray.spec.as_mut().unwrap().node_name = Some("node-9".to_owned());
        let left_out = backends(&service(|_| {}), &[Arc::new(stray.clone())], node);
        assert!(left_out.desired.is_empty());
        assert_eq!(left_out.on_unknown_nodes, [("web-a".to_owned(), "node-9".to_owned())]);
        let publishing = service(|spec| spec.publish_not_ready_addresses = Some(true));
        assert_eq!(backends(&publishing, &[Arc::new(stray)], node).desired.len(), 1);
    }

    #[test]
    fn each_family_has_its_own_group() {
        let dual = service(|spec| spec.ip_families = Some(vec!["IPv6".to_owned(), "IPv4".to_owned()]));
        let mut pod = pod(true, false);
        let ip = |ip: &str| proto::kinds::api::core::v1::PodIP { ip: ip.to_owned() };
        pod.status.as_mut().unwrap().pod_ips = Some(vec![ip("10.244.1.7"), ip("fd00::7")]);
        let backends = backends(&dual, &[Arc::new(pod)], node);
        let types: Vec<&str> = backends.desired.keys().map(|group| group.address_type.as_str()).collect();
        assert_eq!(types, ["IPv4", "IPv6"]);
    }
}
