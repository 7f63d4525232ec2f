//! Finds the endpoint that a connection to a Service reaches.
//!
//! Pure. Corresponds to kube-proxy, and to CategorizeEndpoints of pkg/proxy/topology.go.
//!
//! Deviation: affinity by the client's address is never forgotten: a client reaches the same endpoint for as long as the
//! ready endpoints stay the same, whatever the timeout.

use super::services::ServiceView;
use proto::Kind;
use proto::kinds::api::core::v1::{Service, ServicePort, ServiceSpec};
use proto::kinds::api::discovery::v1::Endpoint;
use std::net::{IpAddr, SocketAddr};
use userland::process::network::Protocol;

/// Services with one of these labels are left to another proxy, or to none.
const FOREIGN_LABELS: [&str; 2] = ["service.kubernetes.io/service-proxy-name", "service.kubernetes.io/headless"];

/// The client of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub address: IpAddr,
    /// The node on which it runs, and the zone of that node.
    pub node: &'a str,
    pub zone: &'a str,
}

/// Where the packets of a connection go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To this endpoint of a Service.
    Endpoint(SocketAddr),
    /// The Service has no endpoint: the connection is refused.
    Rejected,
    /// The Service has no endpoint on this node, or not this port: the packets are lost.
    Dropped,
    /// The address is not that of a Service.
    Elsewhere,
}

/// An endpoint of a Service port.
#[derive(Clone, Debug)]
struct Candidate {
    address: SocketAddr,
    endpoint: Endpoint,
}

impl Candidate {
    fn is_ready(&self) -> bool {
        self.endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    }

    fn serves_while_it_ends(&self) -> bool {
        let conditions = self.endpoint.conditions.clone().unwrap_or_default();
        conditions.serving.unwrap_or(true) && conditions.terminating == Some(true)
    }

    fn is_hinted_for(&self, caller: Caller<'_>, is_for_node: bool) -> Option<bool> {
        let hints = self.endpoint.hints.as_ref();
        match is_for_node {
            true => {
                let nodes = hints.and_then(|hints| hints.for_nodes.as_ref()).filter(|nodes| !nodes.is_empty())?;
                Some(nodes.iter().any(|node| node.name == caller.node))
            }
            false => {
                let zones = hints.and_then(|hints| hints.for_zones.as_ref()).filter(|zones| !zones.is_empty())?;
                Some(zones.iter().any(|zone| zone.name == caller.zone))
            }
        }
    }
}

/// Returns the endpoint for a connection. `node` is the node that has the address, if it is a node's. `draw` returns a
/// number below its argument.
pub fn route(
    view: &ServiceView,
    (protocol, to): (Protocol, SocketAddr),
    node: Option<&str>,
    caller: Caller<'_>,
    draw: &dyn Fn(usize) -> usize,
) -> Route {
    let text = to.ip().to_string();
    let mut is_of_service = false;
    for service in view.services.list() {
        let Some(spec) = service.spec.as_ref().filter(|_| !is_foreign(&service)) else { continue };
        let has = |port: &&ServicePort, number: i32| {
            number == i32::from(to.port()) && protocol_of(port) == Some(protocol) && number != 0
        };
        let mut ports = spec.ports.iter().flatten();
        if let Some(node) = node {
            if let Some(port) = ports.find(|port| has(port, port.node_port.unwrap_or(0))) {
                let is_local = spec.external_traffic_policy.as_deref() == Some("Local");
                let on = is_local.then_some(node);
                return choose(view, &service, port, to, caller, on, draw);
            }
            continue;
        }
        let is_internal = cluster_ips(spec).any(|ip| *ip == text);
        if !is_internal && !external_ips(&service, spec).any(|ip| ip == text) {
            continue;
        }
        is_of_service = true;
        if let Some(port) = ports.find(|port| has(port, port.port)) {
            let is_local = is_internal && spec.internal_traffic_policy.as_deref() == Some("Local");
            let on = is_local.then_some(caller.node);
            return choose(view, &service, port, to, caller, on, draw);
        }
    }
    if is_of_service { Route::Dropped } else { Route::Elsewhere }
}

fn is_foreign(service: &Service) -> bool {
    let labels = service.metadata.labels.as_ref();
    labels.is_some_and(|labels| FOREIGN_LABELS.iter().any(|label| labels.contains_key(*label)))
}

fn cluster_ips(spec: &ServiceSpec) -> impl Iterator<Item = &String> {
    spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten()).filter(|ip| ip.as_str() != "None")
}

/// Returns the addresses by which clients outside of the cluster reach a Service.
fn external_ips<'a>(service: &'a Service, spec: &'a ServiceSpec) -> impl Iterator<Item = String> + 'a {
    let balancer = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let ingress = balancer.and_then(|balancer| balancer.ingress.as_ref()).into_iter().flatten();
    let virtual_ips = ingress.filter(|ingress| ingress.ip_mode.as_deref() != Some("Proxy"));
    spec.external_ips.iter().flatten().cloned().chain(virtual_ips.filter_map(|ingress| ingress.ip.clone()))
}

fn protocol_of(port: &ServicePort) -> Option<Protocol> {
    match port.protocol.as_deref().unwrap_or("TCP") {
        "TCP" => Some(Protocol::Tcp),
        "UDP" => Some(Protocol::Udp),
        _ => None,
    }
}

/// Chooses among the endpoints of a Service port; `on` is the node on which the endpoint has to be.
fn choose(
    view: &ServiceView,
    service: &Service,
    port: &ServicePort,
    to: SocketAddr,
    caller: Caller<'_>,
    on: Option<&str>,
    draw: &dyn Fn(usize) -> usize,
) -> Route {
    let all = candidates(view, service, port, to.is_ipv4());
    let is_usable = |candidate: &Candidate| candidate.is_ready() || candidate.serves_while_it_ends();
    if !all.iter().any(is_usable) {
        return Route::Rejected;
    }
    let chosen = match on {
        Some(node) => usable(&all, |candidate| candidate.endpoint.node_name.as_deref() == Some(node)),
        None => near(&all, caller),
    };
    if chosen.is_empty() {
        return Route::Dropped;
    }
    let is_sticky = service.spec.as_ref().and_then(|spec| spec.session_affinity.as_deref()) == Some("ClientIP");
    let number = if is_sticky { stickiness(caller.address, service) % chosen.len() } else { draw(chosen.len()) };
    Route::Endpoint(chosen[number].address)
}

/// Returns the same number for the same client and Service.
fn stickiness(address: IpAddr, service: &Service) -> usize {
    let text = format!("{address} {}", service.uid());
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    usize::try_from(hash >> 32).unwrap_or(0)
}

fn candidates(view: &ServiceView, service: &Service, port: &ServicePort, is_v4: bool) -> Vec<Candidate> {
    let mut found: Vec<Candidate> = Vec::new();
    let family = if is_v4 { "IPv4" } else { "IPv6" };
    for slice in view.slices_of(service.namespace(), service.name()) {
        if slice.address_type != family {
            continue;
        }
        let is_same =
            |one: &Option<String>| one.as_deref().unwrap_or_default() == port.name.as_deref().unwrap_or_default();
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let ports = slice.ports.iter().flatten();
        let mut ports = ports.filter(|own| is_same(&own.name) && own.protocol.as_deref().unwrap_or("TCP") == protocol);
        let Some(number) = ports.find_map(|own| u16::try_from(own.port?).ok()) else { continue };
        for endpoint in slice.endpoints.iter().flatten() {
            let Some(ip) = endpoint.addresses.first().and_then(|address| address.parse().ok()) else { continue };
            let address = SocketAddr::new(ip, number);
            if !found.iter().any(|known| known.address == address) {
                found.push(Candidate { address, endpoint: endpoint.clone() });
            }
        }
    }
    found.sort_by_key(|candidate| candidate.address.to_string());
    found
}

/// Returns the ready endpoints, or those that still serve while they end.
fn usable(all: &[Candidate], admits: impl Fn(&Candidate) -> bool) -> Vec<&Candidate> {
    let ready: Vec<&Candidate> = all.iter().filter(|one| one.is_ready() && admits(one)).collect();
    match ready.is_empty() {
        true => all.iter().filter(|one| one.serves_while_it_ends() && admits(one)).collect(),
        false => ready,
    }
}

/// Returns the endpoints for traffic without a Local policy: those whose hints name the caller's node or zone, when all
/// ready ones have hints and at least one names it.
fn near<'a>(all: &'a [Candidate], caller: Caller<'_>) -> Vec<&'a Candidate> {
    for is_for_node in [true, false] {
        let hints = || all.iter().filter(|one| one.is_ready()).map(|one| one.is_hinted_for(caller, is_for_node));
        if hints().all(|hint| hint.is_some()) && hints().any(|hint| hint == Some(true)) {
            return usable(all, |one| one.is_hinted_for(caller, is_for_node) == Some(true));
        }
    }
    usable(all, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::dns::tests::{service, slice, view};
    use serde_json::{Value, json};

    const CALLER: Caller<'static> =
        Caller { address: IpAddr::V4(std::net::Ipv4Addr::new(10, 244, 0, 9)), node: "a", zone: "z" };

    /// Returns the addresses that connections reach, in the order of the endpoints.
    fn reached(spec: Value, endpoints: Value, to: &str, node: Option<&str>) -> String {
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        let view = view(&[service("web", spec)], &[slice("web", endpoints, ports)]);
        let mut found: Vec<String> = Vec::new();
        for number in 0..8 {
            let route = route(&view, (Protocol::Tcp, to.parse().unwrap()), node, CALLER, &|below| number % below);
            let shown = match route {
                Route::Endpoint(address) => address.to_string(),
                other => format!("{other:?}"),
            };
            if !found.contains(&shown) {
                found.push(shown);
            }
        }
        found.join(" ")
    }

    fn at(ip: &str, node: &str) -> Value {
        json!({"addresses": [ip], "nodeName": node})
    }

    #[test]
    fn a_connection_goes_to_a_ready_endpoint() {
        let ports = json!([{"name": "http", "port": 80, "nodePort": 30080, "protocol": "TCP", "targetPort": "web"}]);
        let spec = |more: Value| {
            let mut spec = json!({"clusterIP": "10.96.0.7", "externalIPs": ["1.2.3.4"], "ports": ports});
            spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            spec
        };
        let two = json!([at("10.0.0.1", "a"), at("10.0.0.2", "b")]);
        let both = "10.0.0.1:8080 10.0.0.2:8080";
        let unready = json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": false}}]);
        let ending =
            json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": false, "serving": true, "terminating": true}}]);
        let hinted = |ip: &str, zone: &str| json!({"addresses": [ip], "hints": {"forZones": [{"name": zone}]}});
        for (more, endpoints, to, node, expected) in [
            (json!({}), two.clone(), "10.96.0.7:80", None, both),
            (json!({}), two.clone(), "10.96.0.7:81", None, "Dropped"),
            (json!({}), two.clone(), "10.96.0.8:80", None, "Elsewhere"),
            (json!({}), two.clone(), "1.2.3.4:80", None, both),
            (json!({}), two.clone(), "172.18.0.2:30080", Some("b"), both),
            (json!({}), two.clone(), "172.18.0.2:80", Some("b"), "Elsewhere"),
            (json!({"externalTrafficPolicy": "Local"}), two.clone(), "172.18.0.2:30080", Some("b"), "10.0.0.2:8080"),
            (json!({"externalTrafficPolicy": "Local"}), two.clone(), "172.18.0.2:30080", Some("c"), "Dropped"),
            (json!({"internalTrafficPolicy": "Local"}), two.clone(), "10.96.0.7:80", None, "10.0.0.1:8080"),
            (json!({"internalTrafficPolicy": "Local"}), json!([at("10.0.0.2", "b")]), "10.96.0.7:80", None, "Dropped"),
            (json!({}), json!([]), "10.96.0.7:80", None, "Rejected"),
            (json!({}), unready, "10.96.0.7:80", None, "Rejected"),
            (json!({}), ending, "10.96.0.7:80", None, "10.0.0.1:8080"),
            (
                json!({}),
                json!([hinted("10.0.0.1", "y"), hinted("10.0.0.2", "z")]),
                "10.96.0.7:80",
                None,
                "10.0.0.2:8080",
            ),
            (json!({}), json!([hinted("10.0.0.1", "y"), at("10.0.0.2", "b")]), "10.96.0.7:80", None, both),
        ] {
            assert_eq!(reached(spec(more.clone()), endpoints.clone(), to, node), expected, "{more} {endpoints} {to}");
        }
        let sticky = reached(spec(json!({"sessionAffinity": "ClientIP"})), two, "10.96.0.7:80", None);
        assert_eq!(sticky.split(' ').count(), 1, "{sticky}");
    }
}
