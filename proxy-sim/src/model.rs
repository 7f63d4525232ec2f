//! What a proxy knows: service ports and the endpoints behind each, derived from Services and EndpointSlices.
//!
//! Pure. Corresponds to kube-proxy's ServicePortMap, EndpointsMap and CategorizeEndpoints (pkg/proxy).

use proto::kinds::api::core::v1::Service;
use proto::kinds::api::discovery::v1::{Endpoint as ApiEndpoint, EndpointSlice};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Slices name their Service by this label.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// A Service with this label belongs to another proxy.
const PROXY_NAME_LABEL: &str = "service.kubernetes.io/service-proxy-name";
/// A Service or slice with this label is headless and not proxied.
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Stickiness of ClientIP affinity where the Service does not say.
const DEFAULT_AFFINITY_S: i32 = 10_800;

/// `shop/storefront:http`, or `shop/storefront` where the port has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServicePortName {
    pub namespace: String,
    pub name: String,
    pub port: String,
    /// Lower case: `tcp`, `udp`, `sctp`.
    pub protocol: String,
}

impl fmt::Display for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)?;
        if self.port.is_empty() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// One port of one Service, as the rules need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    pub cluster_ip: String,
    pub port: u16,
    /// Zero where the Service has none.
    pub node_port: u16,
    pub external_ips: Vec<String>,
    pub load_balancer_ips: Vec<String>,
    pub load_balancer_source_ranges: Vec<String>,
    /// Seconds of ClientIP stickiness; `None` without affinity.
    pub affinity_s: Option<i32>,
    /// internalTrafficPolicy: Local
    pub internal_local: bool,
    /// externalTrafficPolicy: Local
    pub external_local: bool,
    /// Port of the load balancer's health check; zero where there is none.
    pub health_check_node_port: u16,
}

impl ServicePort {
    /// Whether anything outside the cluster can reach it.
    pub fn is_external(&self) -> bool {
        self.node_port != 0 || !self.external_ips.is_empty() || !self.load_balancer_ips.is_empty()
    }
}

/// One address and port behind a Service port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub ip: String,
    pub port: u16,
    pub node: String,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    /// `hints.forZones`, for topology-aware routing.
    pub zone_hints: Vec<String>,
}

/// Everything that rules are made from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub services: BTreeMap<ServicePortName, ServicePort>,
    pub endpoints: BTreeMap<ServicePortName, Vec<Endpoint>>,
}

impl Model {
    /// From scratch: what every incremental change must equal.
    pub fn build<'a>(
        services: impl IntoIterator<Item = &'a Arc<Service>>,
        slices: impl IntoIterator<Item = &'a Arc<EndpointSlice>>,
    ) -> Self {
        let mut by_service: BTreeMap<(String, String), Vec<Arc<EndpointSlice>>> = BTreeMap::new();
        for slice in slices {
            if let Some(service) = service_of(slice) {
                by_service.entry(service).or_default().push(slice.clone());
            }
        }
        let mut model = Self::default();
        for service in services {
            let (namespace, name) = key_of(service);
            let slices = by_service.get(&(namespace, name)).map(Vec::as_slice).unwrap_or_default();
            model.set_service(service, slices);
        }
        model
    }

    /// Replaces one Service and its endpoints.
    pub fn set_service(&mut self, service: &Service, slices: &[Arc<EndpointSlice>]) {
        let (namespace, name) = key_of(service);
        self.remove_service(&namespace, &name);
        for (port_name, port) in service_ports(service) {
            let endpoints = endpoints_of(&port_name, slices);
            self.services.insert(port_name.clone(), port);
            if !endpoints.is_empty() {
                self.endpoints.insert(port_name, endpoints);
            }
        }
    }

    /// Forgets one Service.
    pub fn remove_service(&mut self, namespace: &str, name: &str) {
        let gone: Vec<ServicePortName> =
            self.services.keys().filter(|k| k.namespace == namespace && k.name == name).cloned().collect();
        for key in gone {
            self.services.remove(&key);
            self.endpoints.remove(&key);
        }
    }
}

fn key_of(service: &Service) -> (String, String) {
    let meta = &service.metadata;
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

/// The Service that a slice belongs to.
pub fn service_of(slice: &EndpointSlice) -> Option<(String, String)> {
    let labels = slice.metadata.labels.as_ref()?;
    if labels.contains_key(HEADLESS_LABEL) {
        return None;
    }
    Some((slice.metadata.namespace.clone()?, labels.get(SERVICE_NAME_LABEL)?.clone()))
}

/// The ports of a Service that a proxy programs: none of a headless, external-name or foreign one.
fn service_ports(service: &Service) -> Vec<(ServicePortName, ServicePort)> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let labels = service.metadata.labels.clone().unwrap_or_default();
    let cluster_ip = spec.cluster_ip.clone().unwrap_or_default();
    let headless = cluster_ip.is_empty() || cluster_ip == "None";
    let external_name = spec.type_.as_deref() == Some("ExternalName");
    if headless || external_name || labels.contains_key(PROXY_NAME_LABEL) || labels.contains_key(HEADLESS_LABEL) {
        return Vec::new();
    }
    let (namespace, name) = key_of(service);
    let affinity_s = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let client_ip = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
        client_ip.and_then(|c| c.timeout_seconds).unwrap_or(DEFAULT_AFFINITY_S)
    });
    let ports = spec.ports.iter().flatten().map(|port| {
        let key = ServicePortName {
            namespace: namespace.clone(),
            name: name.clone(),
            port: port.name.clone().unwrap_or_default(),
            protocol: port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase(),
        };
        let value = ServicePort {
            cluster_ip: cluster_ip.clone(),
            port: port_number(port.port),
            node_port: port_number(port.node_port.unwrap_or(0)),
            external_ips: spec.external_ips.clone().unwrap_or_default(),
            load_balancer_ips: load_balancer_ips(service),
            load_balancer_source_ranges: spec.load_balancer_source_ranges.clone().unwrap_or_default(),
            affinity_s,
            internal_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
            external_local: spec.external_traffic_policy.as_deref() == Some("Local"),
            health_check_node_port: port_number(spec.health_check_node_port.unwrap_or(0)),
        };
        (key, value)
    });
    ports.collect()
}

/// Addresses of the load balancer that the proxy handles itself (`ipMode: VIP`, the default).
fn load_balancer_ips(service: &Service) -> Vec<String> {
    let ingress = service.status.as_ref().and_then(|s| s.load_balancer.as_ref()).and_then(|l| l.ingress.as_ref());
    let vips = ingress.into_iter().flatten().filter(|i| i.ip_mode.as_deref() != Some("Proxy"));
    vips.filter_map(|i| i.ip.clone()).collect()
}

fn port_number(port: i32) -> u16 {
    u16::try_from(port).unwrap_or(0)
}

/// The endpoints of one Service port over all its slices, sorted by address, each once.
fn endpoints_of(service: &ServicePortName, slices: &[Arc<EndpointSlice>]) -> Vec<Endpoint> {
    let mut found: BTreeMap<(String, u16), Endpoint> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.address_type == "IPv4") {
        for port in slice.ports.iter().flatten() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP").to_ascii_lowercase();
            if port.name.as_deref().unwrap_or_default() != service.port || protocol != service.protocol {
                continue;
            }
            let number = port_number(port.port.unwrap_or(0));
            for endpoint in slice.endpoints.iter().flatten() {
                if let Some(endpoint) = endpoint_of(endpoint, number) {
                    found.insert((endpoint.ip.clone(), number), endpoint);
                }
            }
        }
    }
    found.into_values().collect()
}

fn endpoint_of(endpoint: &ApiEndpoint, port: u16) -> Option<Endpoint> {
    let conditions = endpoint.conditions.clone().unwrap_or_default();
    let ready = conditions.ready.unwrap_or(true);
    let hints = endpoint.hints.as_ref().and_then(|hints| hints.for_zones.as_ref());
    Some(Endpoint {
        ip: endpoint.addresses.first()?.clone(),
        port,
        node: endpoint.node_name.clone().unwrap_or_default(),
        ready,
        serving: conditions.serving.unwrap_or(ready),
        terminating: conditions.terminating.unwrap_or(false),
        zone_hints: hints.into_iter().flatten().map(|zone| zone.name.clone()).collect(),
    })
}

/// The endpoints that one node's rules use for a Service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categorized {
    /// For traffic with the Cluster policy.
    pub cluster: Vec<Endpoint>,
    /// For traffic with a Local policy: those on this node.
    pub local: Vec<Endpoint>,
    /// Some endpoint could serve, here or elsewhere: without any, traffic is rejected rather than dropped.
    pub any: bool,
}

/// Picks the usable endpoints: the ready ones, or where none is ready those that still serve while terminating.
pub fn categorize(endpoints: &[Endpoint], node: &str) -> Categorized {
    let usable = |candidates: &[&Endpoint]| -> Vec<Endpoint> {
        let ready: Vec<Endpoint> = candidates.iter().filter(|e| e.ready).map(|e| (*e).clone()).collect();
        if !ready.is_empty() {
            return ready;
        }
        candidates.iter().filter(|e| e.serving && e.terminating).map(|e| (*e).clone()).collect()
    };
    let all: Vec<&Endpoint> = endpoints.iter().collect();
    let here: Vec<&Endpoint> = endpoints.iter().filter(|e| e.node == node).collect();
    let cluster = usable(&all);
    Categorized { any: !cluster.is_empty(), local: usable(&here), cluster }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::Kind;
    use serde_json::json;

    #[derive(Clone, Debug)]
    enum Change {
        Service { name: u8, port: u16, present: bool },
        Slice { number: u8, service: u8, endpoints: Vec<u8>, present: bool },
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            (0..3_u8, 80..83_u16, any::<bool>()).prop_map(|(name, port, present)| Change::Service {
                name,
                port,
                present
            }),
            (0..4_u8, 0..3_u8, prop::collection::vec(1..9_u8, 0..4), any::<bool>()).prop_map(
                |(number, service, endpoints, present)| Change::Slice { number, service, endpoints, present }
            ),
        ]
    }

    fn service(name: u8, port: u16) -> Arc<Service> {
        Arc::new(
            Service::decode_value(json!({
                "metadata": {"namespace": "n", "name": format!("s{name}")},
                "spec": {"clusterIP": format!("10.0.0.{name}"), "ports": [{"port": port}]},
            }))
            .unwrap(),
        )
    }

    fn slice(number: u8, service: u8, endpoints: &[u8]) -> Arc<EndpointSlice> {
        let endpoints: Vec<_> = endpoints.iter().map(|e| json!({"addresses": [format!("10.244.0.{e}")]})).collect();
        Arc::new(
            EndpointSlice::decode_value(json!({
                "metadata": {"namespace": "n", "name": format!("e{number}"),
                    "labels": {SERVICE_NAME_LABEL: format!("s{service}")}},
                "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "port": 8080}],
            }))
            .unwrap(),
        )
    }

    proptest! {
        /// After any history the model kept up change by change is the model built from what is there.
        #[test]
        fn incremental_equals_rebuild(history in prop::collection::vec(change(), 0..40)) {
            let mut services: BTreeMap<String, Arc<Service>> = BTreeMap::new();
            let mut slices: BTreeMap<u8, Arc<EndpointSlice>> = BTreeMap::new();
            let mut model = Model::default();
            for change in history {
                let mut touched = Vec::new();
                match change {
                    Change::Service { name, port, present } => {
                        let key = format!("s{name}");
                        touched.push(key.clone());
                        if present { services.insert(key, service(name, port)); } else { services.remove(&key); }
                    }
                    Change::Slice { number, service, endpoints, present } => {
                        let new = present.then(|| slice(number, service, &endpoints));
                        let old = match new.clone() {
                            Some(new) => slices.insert(number, new),
                            None => slices.remove(&number),
                        };
                        touched.extend(old.iter().chain(&new).filter_map(|s| service_of(s)).map(|(_, name)| name));
                    }
                }
                for name in touched {
                    let own: Vec<_> = slices.values().filter(|s| service_of(s).is_some_and(|(_, n)| n == name)).cloned().collect();
                    match services.get(&name) {
                        Some(service) => model.set_service(service, &own),
                        None => model.remove_service("n", &name),
                    }
                }
                prop_assert_eq!(&model, &Model::build(services.values(), slices.values()));
            }
        }
    }
}
