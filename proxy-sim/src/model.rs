//! The state that rules are made from: service ports and their endpoints, derived from Services and EndpointSlices.
//!
//! Pure. Corresponds to kube-proxy's ServicePortMap and EndpointsMap (pkg/proxy/serviceport.go, endpoint.go).

pub mod categorize;
pub mod objects;

pub use categorize::{Categorized, categorize};
#[cfg(test)]
use objects::SERVICE_NAME_LABEL;
pub use objects::service_of;

use proto::kinds::api::core::v1::Service;
use proto::kinds::api::discovery::v1::EndpointSlice;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The name of a service port: `shop/storefront:http`, or `shop/storefront` when the port has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
    /// Zero when the Service has none.
    pub node_port: u16,
    pub external_ips: Vec<String>,
    pub load_balancer_ips: Vec<String>,
    /// Networks, with the host bits cleared.
    pub load_balancer_source_ranges: Vec<String>,
    /// Seconds of ClientIP stickiness; `None` without affinity.
    pub affinity_s: Option<i32>,
    /// True for `internalTrafficPolicy: Local`.
    pub internal_local: bool,
    /// True for `externalTrafficPolicy: Local`.
    pub external_local: bool,
    /// Port of the load balancer's health check; zero when there is none.
    pub health_check_node_port: u16,
}

impl ServicePort {
    /// True when clients outside the cluster can reach the port.
    pub fn is_external(&self) -> bool {
        self.node_port != 0 || !self.external_ips.is_empty() || !self.load_balancer_ips.is_empty()
    }

    /// True when some traffic may go to endpoints on any node. That includes traffic from pods to external addresses,
    /// which the Local policy does not bind.
    pub fn uses_cluster(&self) -> bool {
        !self.internal_local || self.is_external()
    }

    /// True when some traffic may go only to endpoints on its own node.
    pub fn uses_local(&self) -> bool {
        self.internal_local || (self.external_local && self.is_external())
    }
}

/// One address and port behind a Service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub ip: String,
    pub port: u16,
    pub node: String,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    /// The zones and nodes whose traffic should go here: `hints.forZones` and `hints.forNodes`.
    pub zone_hints: Vec<String>,
    pub node_hints: Vec<String>,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.ip, self.port)
    }
}

/// A service port with its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub port: ServicePort,
    /// Sorted by `ip:port` as text, each once.
    pub endpoints: Vec<Endpoint>,
}

/// All service ports of the cluster with their endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    services: BTreeMap<ServicePortName, Entry>,
    endpoint_count: usize,
}

impl Model {
    /// Builds the model from scratch. A model that is kept current change by change must equal this one.
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
            let slices = by_service.get(&objects::key_of(service)).map(Vec::as_slice).unwrap_or_default();
            model.set_service(service, slices);
        }
        model
    }

    /// Replaces one Service and its endpoints. The cost does not depend on the number of other Services.
    pub fn set_service(&mut self, service: &Service, slices: &[Arc<EndpointSlice>]) {
        let (namespace, name) = objects::key_of(service);
        self.remove_service(&namespace, &name);
        for (port_name, port) in objects::service_ports(service) {
            let endpoints = objects::endpoints_of(&port_name, slices);
            self.endpoint_count += endpoints.len();
            if let Some(replaced) = self.services.insert(port_name, Entry { port, endpoints }) {
                self.endpoint_count -= replaced.endpoints.len();
            }
        }
    }

    /// Removes one Service.
    pub fn remove_service(&mut self, namespace: &str, name: &str) {
        let first = ServicePortName { namespace: namespace.to_owned(), name: name.to_owned(), ..Default::default() };
        let of_service = self.services.range(first..).map(|(key, _)| key);
        let of_service = of_service.take_while(|key| key.namespace == namespace && key.name == name);
        for key in of_service.cloned().collect::<Vec<_>>() {
            let entry = self.services.remove(&key);
            self.endpoint_count -= entry.map_or(0, |entry| entry.endpoints.len());
        }
    }

    /// Returns all service ports, sorted by name.
    pub fn services(&self) -> impl Iterator<Item = (&ServicePortName, &Entry)> {
        self.services.iter()
    }

    /// Returns the number of endpoints of all service ports.
    pub fn endpoint_count(&self) -> usize {
        self.endpoint_count
    }
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
        /// After any history of changes, the incremental model equals the one built from the present objects.
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
