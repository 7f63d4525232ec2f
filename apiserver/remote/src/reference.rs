//! Resolves a reference to a Service to the address of a real server.
//!
//! In this cluster the addresses of pods, nodes and Services are simulated, and nothing connects to them. A Service has
//! a real address where the user gives it one: by the annotation `orrery.dev/service-endpoint` (`host:port`), as an
//! ExternalName, or by an EndpointSlice written by hand. Anything else fails at once and says why.
//! Corresponds to ResolveEndpoint in k8s.io/apiserver/pkg/util/proxy.

use cacher::lookup::{Lookup, ObjectKey};
use component_base::dial::SERVICE_ENDPOINT;
use component_base::rng::Random;
use ipnet::IpNet;
use proto::{Object, Status};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Port of an APIService or a webhook that names none.
pub const DEFAULT_PORT: u16 = 443;

/// `service: {namespace, name, path, port}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceReference {
    pub namespace: String,
    pub name: String,
    /// Empty, or beginning with a slash.
    pub path: String,
    pub port: u16,
}

/// The reasons for which a reference cannot be resolved.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Unresolved {
    #[error("service {name:?} not found")]
    NoService { name: String },
    #[error("no service port {port} found for service {name:?}")]
    NoPort { name: String, port: u16 },
    #[error("no endpoints available for service {name:?}")]
    NoSlices { name: String },
    #[error("no endpoints available for service {name:?}")]
    NoEndpoints { name: String, port_name: String },
    #[error(
        "service \"{namespace}/{name}\" leads to {what}, which is simulated, and nothing connects to it: annotate the \
         service with {SERVICE_ENDPOINT}, make it an ExternalName, or give it an EndpointSlice with a real address"
    )]
    Simulated { namespace: String, name: String, what: String },
    #[error("the annotation {SERVICE_ENDPOINT} of service {name:?} is not host:port: {text:?}")]
    Malformed { name: String, text: String },
    #[error("{0}")]
    Unreadable(Box<Status>),
}

/// The simulated addresses, at which no server listens.
pub struct SimulatedAddresses {
    /// Addresses of Services, and of the pods of each node.
    pub ranges: Vec<(IpNet, &'static str)>,
    /// Addresses of nodes.
    pub nodes: Vec<IpAddr>,
}

impl ServiceReference {
    /// Reads a reference from an object. Its defaults may be missing if the object was written before they existed.
    pub fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let port = value.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let reference = Self {
            namespace: text("namespace"),
            name: text("name"),
            path: text("path"),
            port: port.unwrap_or(DEFAULT_PORT),
        };
        (!reference.name.is_empty()).then_some(reference)
    }

    /// Returns the name that has to be in the server's certificate.
    pub fn server_name(&self) -> String {
        format!("{}.{}.svc", self.name, self.namespace)
    }

    /// Returns `host:port` of a real server, or why there is none. `simulated` is only called when it is needed.
    pub fn resolve(
        &self,
        objects: &dyn Lookup,
        simulated: impl FnOnce() -> Result<Arc<SimulatedAddresses>, Status>,
        random: &Random,
    ) -> Result<String, Unresolved> {
        let key = ObjectKey { group: "", resource: "services", namespace: &self.namespace, name: &self.name };
        let found = objects.get(key).map_err(unreadable)?;
        let service = found.ok_or_else(|| Unresolved::NoService { name: self.name.clone() })?.value();
        let mut slices: Vec<Arc<Value>> = Vec::new();
        if service["spec"]["type"] != "ExternalName" && annotation(&service).is_none() {
            let all = objects.list("discovery.k8s.io", "endpointslices", &self.namespace).map_err(unreadable)?;
            // Only slices of this Service are worth parsing.
            let own = all.iter().filter(|s| s.index.labels.get(SERVICE_NAME).is_some_and(|name| *name == self.name));
            slices = own.map(|slice| slice.value()).collect();
        }
        let candidates = self.candidates(&service, &slices)?;
        let known = match candidates.iter().any(|candidate| candidate.pod.is_none() && candidate.is_address()) {
            true => Some(simulated().map_err(unreadable)?),
            false => None,
        };
        let (mut real, mut why) = (Vec::new(), String::new());
        for candidate in &candidates {
            let of_range = || Some(format!("{} {}", known.as_ref()?.describe(&candidate.host)?, candidate.host));
            match candidate.pod.clone().or_else(of_range) {
                Some(what) => why = what,
                None => real.push(candidate),
            }
        }
        match real.as_slice() {
            [] => Err(Unresolved::Simulated { namespace: self.namespace.clone(), name: self.name.clone(), what: why }),
            [only] => Ok(only.authority()),
            several => Ok(several[random.below(several.len())].authority()),
        }
    }

    /// Returns the addresses that the Service names; never empty.
    fn candidates(&self, service: &Value, slices: &[Arc<Value>]) -> Result<Vec<Candidate>, Unresolved> {
        let name = || self.name.clone();
        if let Some(text) = annotation(service) {
            let malformed = || Unresolved::Malformed { name: name(), text: text.to_owned() };
            let (host, port) = text.rsplit_once(':').ok_or_else(malformed)?;
            let port = port.parse().map_err(|_| malformed())?;
            let host = host.trim_matches(['[', ']']);
            return if host.is_empty() { Err(malformed()) } else { Ok(vec![Candidate::at(host, port)]) };
        }
        if service["spec"]["type"] == "ExternalName" {
            let host = service["spec"]["externalName"].as_str().unwrap_or_default();
            return Ok(vec![Candidate::at(host, self.port)]);
        }
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let port = ports.find(|port| port["port"] == self.port);
        let port = port.ok_or_else(|| Unresolved::NoPort { name: name(), port: self.port })?;
        if slices.is_empty() {
            return Err(Unresolved::NoSlices { name: name() });
        }
        let port_name = port["name"].as_str().unwrap_or_default();
        let found: Vec<Candidate> = slices.iter().flat_map(|slice| ready(slice, port_name)).collect();
        if found.is_empty() {
            return Err(Unresolved::NoEndpoints { name: name(), port_name: port_name.to_owned() });
        }
        Ok(found)
    }
}

fn annotation(service: &Value) -> Option<&str> {
    service["metadata"]["annotations"][SERVICE_ENDPOINT].as_str().filter(|text| !text.is_empty())
}

fn unreadable(status: Status) -> Unresolved {
    Unresolved::Unreadable(Box::new(status))
}

/// An address at which a Service may be served.
#[derive(Debug, PartialEq)]
struct Candidate {
    host: String,
    port: u16,
    /// A description of the simulated pod at this address, if it is one.
    pod: Option<String>,
}

impl Candidate {
    fn at(host: &str, port: u16) -> Self {
        Self { host: host.to_owned(), port, pod: None }
    }

    /// Returns whether the host is an address that can be simulated: not a name, which DNS resolves, and not the
    /// loopback, which is this machine even if a node has that address.
    fn is_address(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|address| !address.is_loopback())
    }

    fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// Returns the ready endpoints of a slice that have the named port.
fn ready(slice: &Value, port_name: &str) -> Vec<Candidate> {
    let mut ports = slice["ports"].as_array().into_iter().flatten();
    let port = ports.find(|port| port["name"].as_str().unwrap_or_default() == port_name);
    let Some(port) = port.and_then(|port| port["port"].as_u64()).and_then(|port| u16::try_from(port).ok()) else {
        return Vec::new();
    };
    let endpoints = slice["endpoints"].as_array().into_iter().flatten();
    endpoints
        .filter(|endpoint| endpoint["conditions"]["ready"] != false)
        .filter_map(|endpoint| {
            let host = endpoint["addresses"][0].as_str()?;
            let pod = &endpoint["targetRef"];
            let text = |key: &str| pod[key].as_str().unwrap_or_default();
            let pod = (pod["kind"] == "Pod").then(|| format!("pod \"{}/{}\"", text("namespace"), text("name")));
            Some(Candidate { pod, ..Candidate::at(host, port) })
        })
        .collect()
}

impl SimulatedAddresses {
    pub fn of(services: &[IpNet], nodes: &[Arc<Object>]) -> Self {
        let ranges = services.iter().map(|range| (*range, "service address")).collect();
        let mut simulated = Self { ranges, nodes: Vec::new() };
        nodes.iter().for_each(|node| simulated.add_node(&node.peek()));
        simulated
    }

    fn add_node(&mut self, node: &Value) {
        let ranges = node["spec"]["podCIDRs"].as_array().into_iter().flatten().chain([&node["spec"]["podCIDR"]]);
        let ranges = ranges.filter_map(Value::as_str).filter_map(|range| range.parse().ok());
        self.ranges.extend(ranges.map(|range| (range, "pod address")));
        let addresses = node["status"]["addresses"].as_array().into_iter().flatten();
        self.nodes.extend(addresses.filter_map(|a| a["address"].as_str()).filter_map(|a| a.parse::<IpAddr>().ok()));
    }

    /// Returns a description of a simulated address, or `None` for a real one.
    fn describe(&self, host: &str) -> Option<&'static str> {
        let address: IpAddr = host.parse().ok().filter(|address: &IpAddr| !address.is_loopback())?;
        if let Some((_, what)) = self.ranges.iter().find(|(range, _)| range.contains(&address)) {
            return Some(what);
        }
        self.nodes.contains(&address).then_some("node address")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::env::Env;
    use serde_json::json;
    use std::collections::BTreeMap;

    /// The objects of a cluster, by resource.
    struct Cluster(Vec<(&'static str, Value)>);

    #[async_trait::async_trait]
    impl Lookup for Cluster {
        fn get(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
            Ok(self.list(key.group, key.resource, key.namespace)?.into_iter().find(|o| o.index.name == key.name))
        }

        async fn get_live(&self, key: ObjectKey<'_>) -> Result<Option<Arc<Object>>, Status> {
            self.get(key)
        }

        fn list(&self, _: &str, resource: &str, _: &str) -> Result<Vec<Arc<Object>>, Status> {
            let found = self.0.iter().filter(|(known, _)| *known == resource);
            Ok(found.map(|(_, value)| Arc::new(Object::from_value(value.clone(), 1, BTreeMap::new()))).collect())
        }

        fn kind(&self, _: &proto::Gvk) -> Option<proto::resources::Target> {
            None
        }

        async fn as_kind(&self, _: &proto::resources::Target, object: &Object) -> Result<Value, Status> {
            Ok(object.to_value())
        }
    }

    fn resolve(objects: Vec<(&'static str, Value)>) -> Result<String, String> {
        let reference = json!({"namespace": "n", "name": "s", "port": 8443});
        let reference = ServiceReference::read(&reference).unwrap();
        let random = Env::simulated(1).random("test");
        let cluster = Cluster(objects);
        let simulated = || {
            Ok(Arc::new(SimulatedAddresses::of(
                &["10.96.0.0/16".parse().unwrap()],
                &cluster.list("", "nodes", "").unwrap(),
            )))
        };
        reference.resolve(&cluster, simulated, &random).map_err(|error| error.to_string())
    }

    fn service(spec: Value) -> (&'static str, Value) {
        ("services", json!({"metadata": {"name": "s", "namespace": "n"}, "spec": spec}))
    }

    fn ports() -> Value {
        json!({"type": "ClusterIP", "ports": [{"name": "web", "port": 8443}]})
    }

    fn slice(endpoint: Value) -> (&'static str, Value) {
        let labels = json!({SERVICE_NAME: "s"});
        let value = json!({
            "metadata": {"name": "s-1", "namespace": "n", "labels": labels},
            "ports": [{"name": "web", "port": 6000}], "endpoints": [endpoint],
        });
        ("endpointslices", value)
    }

    #[tokio::test(start_paused = true)]
    async fn the_user_says_where_a_service_really_is() {
        let mut annotated = service(ports());
        annotated.1["metadata"]["annotations"] = json!({SERVICE_ENDPOINT: "hooks:9443"});
        let real = json!({"addresses": ["192.0.2.7"], "conditions": {"ready": true}});
        let resting = json!({"addresses": ["192.0.2.8"], "conditions": {"ready": false}});
        let v6 = json!({"addresses": ["2001:db8::1"]});
        let no_endpoints = Err("no endpoints available for service \"s\"".to_owned());
        for (objects, expected) in [
            (vec![annotated], Ok("hooks:9443".to_owned())),
            (vec![service(json!({"type": "ExternalName", "externalName": "localhost"}))], Ok("localhost:8443".into())),
            (vec![service(ports()), slice(real)], Ok("192.0.2.7:6000".into())),
            (vec![service(ports()), slice(v6)], Ok("[2001:db8::1]:6000".into())),
            (vec![service(ports()), slice(resting)], no_endpoints.clone()),
            (vec![service(ports())], no_endpoints),
            (
                vec![service(json!({"ports": [{"port": 1}]}))],
                Err("no service port 8443 found for service \"s\"".into()),
            ),
            (vec![], Err("service \"s\" not found".into())),
        ] {
            assert_eq!(resolve(objects), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_simulated_is_refused_at_once() {
        let node = json!({
            "metadata": {"name": "a"}, "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]},
            "status": {"addresses": [{"type": "InternalIP", "address": "172.18.0.2"}]},
        });
        let pod = json!({"kind": "Pod", "namespace": "n", "name": "p"});
        for (endpoint, what) in [
            (json!({"addresses": ["192.0.2.1"], "targetRef": pod}), "pod \"n/p\""),
            (json!({"addresses": ["10.244.0.9"]}), "pod address 10.244.0.9"),
            (json!({"addresses": ["10.96.3.4"]}), "service address 10.96.3.4"),
            (json!({"addresses": ["172.18.0.2"]}), "node address 172.18.0.2"),
        ] {
            let refused = resolve(vec![service(ports()), slice(endpoint), ("nodes", node.clone())]).unwrap_err();
            let expected = format!("service \"n/s\" leads to {what}, which is simulated, and nothing connects to it: ");
            assert!(refused.starts_with(&expected), "{refused}");
        }
    }
}
