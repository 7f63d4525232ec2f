//! Answers questions about the names of Services and pods.
//!
//! Pure. Corresponds to CoreDNS with its plugin kubernetes, and to Kubernetes' DNS-Based Service Discovery
//! (github.com/kubernetes/dns/blob/master/docs/specification.md).
//!
//! Deviation: names outside of the cluster do not exist.

use super::services::ServiceView;
use proto::Kind;
use proto::kinds::api::core::v1::{Service, ServicePort};
use proto::kinds::api::discovery::v1::{Endpoint, EndpointSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use userland::process::network::{LookupAnswer, Record, RecordData, RecordType};

/// Seconds for which answers may be kept, as CoreDNS's default has it.
const TTL_S: u32 = 30;
const SPECIFICATION: &str = "1.1.0";
/// The longest chain of aliases.
const MAX_ALIASES: usize = 8;
/// Priority and weight of SRV records.
const PRIORITY: u16 = 0;
const WEIGHT: u16 = 100;

/// Answers a question about a whole name in lower case.
pub fn answer(view: &ServiceView, domain: &str, name: &str, record_type: RecordType) -> LookupAnswer {
    let mut name = name.to_owned();
    let mut aliases = Vec::new();
    while aliases.len() < MAX_ALIASES {
        match (Zone { view, domain }).records(&name, record_type) {
            Found::Records(data) => {
                let record = |data| Record { name: name.clone(), ttl_s: TTL_S, data };
                aliases.extend(data.into_iter().map(record));
                return LookupAnswer::Records(aliases);
            }
            Found::Alias(target) => {
                aliases.push(Record { name, ttl_s: TTL_S, data: RecordData::Cname(target.clone()) });
                if record_type == RecordType::Cname {
                    return LookupAnswer::Records(aliases);
                }
                name = target;
            }
            Found::Nothing => return LookupAnswer::NoSuchName(aliases),
        }
    }
    LookupAnswer::ServerFailed
}

/// What a zone has for a name.
#[derive(Debug, PartialEq)]
enum Found {
    /// The name exists; there may be no record of the type.
    Records(Vec<RecordData>),
    Alias(String),
    Nothing,
}

/// The names below the cluster's domain.
struct Zone<'a> {
    view: &'a ServiceView,
    domain: &'a str,
}

impl Zone<'_> {
    fn records(&self, name: &str, record_type: RecordType) -> Found {
        if let Some(address) = reversed(name) {
            return self.pointer(address, record_type);
        }
        let Some(inner) = name.strip_suffix(self.domain).and_then(|rest| rest.strip_suffix('.')) else {
            // The domain itself exists, and nothing outside of it.
            return if name == self.domain { Found::Records(Vec::new()) } else { Found::Nothing };
        };
        let labels: Vec<&str> = inner.split('.').collect();
        match labels.as_slice() {
            ["dns-version"] => Found::Records(match record_type {
                RecordType::Txt => vec![RecordData::Text(SPECIFICATION.to_owned())],
                _ => Vec::new(),
            }),
            ["svc" | "pod"] => Found::Records(Vec::new()),
            [host, _, "pod"] => match dashed(host) {
                Some(address) => Found::Records(of_type([RecordData::Address(address)], record_type)),
                None => Found::Nothing,
            },
            [namespace, "svc"] => match self.view.services.in_namespace(namespace).is_empty() {
                true => Found::Nothing,
                false => Found::Records(Vec::new()),
            },
            [before @ .., service, namespace, "svc"] => match self.view.services.get(namespace, service) {
                Some(service) => self.service(&service, before, record_type),
                None => Found::Nothing,
            },
            _ => Found::Nothing,
        }
    }

    /// Returns the whole name of a Service.
    fn name_of(&self, service: &Service) -> String {
        format!("{}.{}.svc.{}", service.name(), service.namespace(), self.domain)
    }

    /// Answers for a Service: its own name, the name of an endpoint before it, or a port and a protocol.
    fn service(&self, service: &Service, before: &[&str], record_type: RecordType) -> Found {
        let spec = service.spec.clone().unwrap_or_default();
        if spec.type_.as_deref() == Some("ExternalName") {
            let target = spec.external_name.unwrap_or_default();
            return if before.is_empty() {
                Found::Alias(target.trim_end_matches('.').to_owned())
            } else {
                Found::Nothing
            };
        }
        let ports = spec.ports.clone().unwrap_or_default();
        let is_headless = spec.cluster_ip.as_deref() == Some("None");
        let own = self.name_of(service);
        match before {
            [] if record_type == RecordType::Srv => Found::Records(match is_headless {
                true => self.endpoint_ports(service, |_| true),
                false => ports.iter().map(|port| srv(port.port, own.clone())).collect(),
            }),
            [] if is_headless => {
                let endpoints = self.endpoints(service);
                match endpoints.is_empty() {
                    true => Found::Nothing,
                    false => {
                        let addresses = endpoints.iter().flat_map(|(_, endpoint)| addresses(endpoint));
                        Found::Records(distinct(of_type(addresses, record_type)))
                    }
                }
            }
            [] => {
                let ips = spec.cluster_ips.unwrap_or_else(|| spec.cluster_ip.into_iter().collect());
                let data = ips.iter().filter_map(|ip| ip.parse().ok()).map(RecordData::Address);
                Found::Records(of_type(data, record_type))
            }
            [port, protocol] if port.starts_with('_') && protocol.starts_with('_') => {
                let is_meant = |known: &ServicePort| {
                    known.name.as_deref() == Some(&port[1..])
                        && known.protocol.as_deref().unwrap_or("TCP").eq_ignore_ascii_case(&protocol[1..])
                };
                let data = match is_headless {
                    true => self.endpoint_ports(service, |(name, known)| {
                        *name == port[1..] && known.eq_ignore_ascii_case(&protocol[1..])
                    }),
                    false => {
                        ports.iter().filter(|known| is_meant(known)).map(|known| srv(known.port, own.clone())).collect()
                    }
                };
                match data.is_empty() {
                    true => Found::Nothing,
                    false => Found::Records(of_type(data, record_type)),
                }
            }
            [host] if is_headless => {
                let endpoints = self.endpoints(service);
                let meant = endpoints.iter().filter(|(_, endpoint)| host_of(endpoint) == **host);
                let data: Vec<RecordData> = meant.flat_map(|(_, endpoint)| addresses(endpoint)).collect();
                match data.is_empty() {
                    true => Found::Nothing,
                    false => Found::Records(of_type(data, record_type)),
                }
            }
            _ => Found::Nothing,
        }
    }

    /// Returns the endpoints of a Service that are ready, each with its slice.
    fn endpoints(&self, service: &Service) -> Vec<(Arc<EndpointSlice>, Endpoint)> {
        let mut found = Vec::new();
        for slice in self.view.slices_of(service.namespace(), service.name()) {
            let is_ready = |endpoint: &&Endpoint| {
                endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
            };
            let ready = slice.endpoints.iter().flatten().filter(is_ready);
            found.extend(ready.map(|endpoint| (slice.clone(), endpoint.clone())));
        }
        found
    }

    /// Returns a record for each port of each endpoint. A port is given by its name and protocol.
    fn endpoint_ports(&self, service: &Service, is_meant: impl Fn((&str, &str)) -> bool) -> Vec<RecordData> {
        let own = self.name_of(service);
        let mut found = Vec::new();
        for (slice, endpoint) in self.endpoints(service) {
            for port in slice.ports.iter().flatten() {
                let name = port.name.as_deref().unwrap_or_default();
                let protocol = port.protocol.as_deref().unwrap_or("TCP");
                if let Some(number) = port.port.filter(|_| is_meant((name, protocol))) {
                    found.push(srv(number, format!("{}.{own}", host_of(&endpoint))));
                }
            }
        }
        distinct(found)
    }

    /// Returns the name of an address: of a Service, or of an endpoint with a host name.
    fn pointer(&self, address: IpAddr, record_type: RecordType) -> Found {
        let text = address.to_string();
        let services = self.view.services.list();
        let has = |service: &&Arc<Service>| {
            let spec = service.spec.as_ref();
            spec.is_some_and(|spec| {
                spec.cluster_ip.iter().chain(spec.cluster_ips.iter().flatten()).any(|ip| *ip == text)
            })
        };
        let names: Vec<String> = match services.iter().find(has) {
            Some(service) => vec![self.name_of(service)],
            None => {
                let headless = services.iter().filter(|service| {
                    service.spec.as_ref().is_some_and(|spec| spec.cluster_ip.as_deref() == Some("None"))
                });
                let name = |service: &Arc<Service>| {
                    let endpoints = self.endpoints(service);
                    let own = endpoints.iter().find(|(_, endpoint)| endpoint.addresses.contains(&text));
                    own.map(|(_, endpoint)| format!("{}.{}", host_of(endpoint), self.name_of(service)))
                };
                headless.filter_map(name).collect()
            }
        };
        match names.is_empty() {
            true => Found::Nothing,
            false => Found::Records(of_type(names.into_iter().map(RecordData::Pointer), record_type)),
        }
    }
}

fn srv(port: i32, target: String) -> RecordData {
    RecordData::Service { priority: PRIORITY, weight: WEIGHT, port: u16::try_from(port).unwrap_or(0), target }
}

fn of_type(data: impl IntoIterator<Item = RecordData>, record_type: RecordType) -> Vec<RecordData> {
    data.into_iter().filter(|data| data.record_type() == record_type).collect()
}

fn distinct(data: Vec<RecordData>) -> Vec<RecordData> {
    let mut found: Vec<RecordData> = Vec::new();
    for one in data {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn addresses(endpoint: &Endpoint) -> impl Iterator<Item = RecordData> + '_ {
    endpoint.addresses.iter().take(1).filter_map(|address| address.parse().ok()).map(RecordData::Address)
}

/// Returns the name of an endpoint below its Service: its host name, or its address.
fn host_of(endpoint: &Endpoint) -> String {
    match endpoint.hostname.as_deref().filter(|hostname| !hostname.is_empty()) {
        Some(hostname) => hostname.to_owned(),
        None => endpoint.addresses.first().map(|address| address.replace(['.', ':'], "-")).unwrap_or_default(),
    }
}

/// Reads an address whose dots or colons are dashes.
fn dashed(host: &str) -> Option<IpAddr> {
    let v4 = host.replace('-', ".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    v4.or_else(|| host.replace('-', ":").parse::<Ipv6Addr>().ok().map(IpAddr::V6))
}

/// Returns the address of a name of a reverse zone.
fn reversed(name: &str) -> Option<IpAddr> {
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let forward: Vec<&str> = labels.rsplit('.').collect();
        return forward.join(".").parse::<Ipv4Addr>().ok().map(IpAddr::V4);
    }
    let digits: String = name.strip_suffix(".ip6.arpa")?.rsplit('.').collect();
    u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32).map(|bits| IpAddr::V6(bits.into()))
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::network::services::SERVICE_NAME_LABEL;
    use client::Lister;
    use serde_json::{Value, json};

    /// Makes the caches of a few Services.
    pub fn view(services: &[Value], slices: &[Value]) -> ServiceView {
        let services = services.iter().map(|service| Service::decode_value(service.clone()).unwrap());
        let slices = slices.iter().map(|slice| EndpointSlice::decode_value(slice.clone()).unwrap());
        ServiceView { services: Lister::of(services), slices: Lister::of(slices) }
    }

    pub fn service(name: &str, spec: Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "shop"}, "spec": spec})
    }

    pub fn slice(service: &str, endpoints: Value, ports: Value) -> Value {
        json!({
            "metadata": {"name": format!("{service}-1"), "namespace": "shop", "labels": {SERVICE_NAME_LABEL: service}},
            "addressType": "IPv4", "endpoints": endpoints, "ports": ports,
        })
    }

    #[test]
    fn names_are_those_of_the_specification() {
        let view = view(
            &[
                service(
                    "web",
                    json!({"clusterIP": "10.96.0.7", "ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}),
                ),
                service(
                    "db",
                    json!({"clusterIP": "None", "ports": [{"name": "sql", "port": 3306, "protocol": "TCP"}]}),
                ),
                service("none", json!({"clusterIP": "None"})),
                service("ext", json!({"type": "ExternalName", "externalName": "db.shop.svc.cluster.local"})),
                service("far", json!({"type": "ExternalName", "externalName": "example.com"})),
                service("two", json!({"clusterIP": "10.96.0.8", "clusterIPs": ["10.96.0.8", "fd00::8"]})),
            ],
            &[
                slice(
                    "db",
                    json!([
                        {"addresses": ["10.244.0.5"], "hostname": "db-0"},
                        {"addresses": ["10.244.0.6"]},
                        {"addresses": ["10.244.0.7"], "conditions": {"ready": false}, "hostname": "db-2"},
                    ]),
                    json!([{"name": "sql", "port": 3306, "protocol": "TCP"}]),
                ),
                slice("none", json!([{"addresses": ["10.244.0.9"], "conditions": {"ready": false}}]), json!([])),
            ],
        );
        use RecordType::{A, Aaaa, Cname, Ptr, Srv, Txt};
        for (name, record_type, expected) in [
            ("web.shop.svc.cluster.local", A, "10.96.0.7"),
            ("web.shop.svc.cluster.local", Aaaa, ""),
            ("web.other.svc.cluster.local", A, "NXDOMAIN"),
            ("x.web.shop.svc.cluster.local", A, "NXDOMAIN"),
            ("_http._tcp.web.shop.svc.cluster.local", Srv, "0 100 80 web.shop.svc.cluster.local."),
            ("_http._udp.web.shop.svc.cluster.local", Srv, "NXDOMAIN"),
            ("web.shop.svc.cluster.local", Srv, "0 100 80 web.shop.svc.cluster.local."),
            ("two.shop.svc.cluster.local", Aaaa, "fd00::8"),
            ("db.shop.svc.cluster.local", A, "10.244.0.5 10.244.0.6"),
            ("db-0.db.shop.svc.cluster.local", A, "10.244.0.5"),
            ("10-244-0-6.db.shop.svc.cluster.local", A, "10.244.0.6"),
            ("db-2.db.shop.svc.cluster.local", A, "NXDOMAIN"),
            (
                "_sql._tcp.db.shop.svc.cluster.local",
                Srv,
                "0 100 3306 db-0.db.shop.svc.cluster.local. 0 100 3306 10-244-0-6.db.shop.svc.cluster.local.",
            ),
            ("none.shop.svc.cluster.local", A, "NXDOMAIN"),
            ("ext.shop.svc.cluster.local", Cname, "db.shop.svc.cluster.local."),
            ("ext.shop.svc.cluster.local", A, "db.shop.svc.cluster.local. 10.244.0.5 10.244.0.6"),
            ("far.shop.svc.cluster.local", Cname, "example.com."),
            ("far.shop.svc.cluster.local", A, "NXDOMAIN example.com."),
            ("1-2-3-4.shop.pod.cluster.local", A, "1.2.3.4"),
            ("fd00--1.shop.pod.cluster.local", Aaaa, "fd00::1"),
            ("me.shop.pod.cluster.local", A, "NXDOMAIN"),
            ("7.0.96.10.in-addr.arpa", Ptr, "web.shop.svc.cluster.local."),
            ("5.0.244.10.in-addr.arpa", Ptr, "db-0.db.shop.svc.cluster.local."),
            ("1.1.1.1.in-addr.arpa", Ptr, "NXDOMAIN"),
            ("dns-version.cluster.local", Txt, "\"1.1.0\""),
            ("shop.svc.cluster.local", A, ""),
            ("nowhere.svc.cluster.local", A, "NXDOMAIN"),
            ("example.com", A, "NXDOMAIN"),
        ] {
            let (mark, records) = match answer(&view, "cluster.local", name, record_type) {
                LookupAnswer::Records(records) => (None, records),
                LookupAnswer::NoSuchName(records) => (Some("NXDOMAIN".to_owned()), records),
                other => panic!("{name}: {other:?}"),
            };
            let shown: Vec<String> =
                mark.into_iter().chain(records.iter().map(|record| record.data.to_string())).collect();
            assert_eq!(shown.join(" "), expected, "{name} {record_type}");
        }
    }

    #[test]
    fn aliases_that_go_round_fail() {
        let spec = json!({"type": "ExternalName", "externalName": "a.shop.svc.cluster.local"});
        let view = view(&[service("a", spec)], &[]);
        let found = answer(&view, "cluster.local", "a.shop.svc.cluster.local", RecordType::A);
        assert_eq!(found, LookupAnswer::ServerFailed);
    }
}
