//! The variables by which containers find Services.
//!
//! Pure. Corresponds to pkg/kubelet/envvars and getServiceEnvVarMap of pkg/kubelet/kubelet_pods.go.

use proto::Kind;
use proto::kinds::api::core::v1::Service;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The Service of the API server, which containers of all namespaces find.
pub const MASTER: (&str, &str) = ("default", "kubernetes");

/// Returns the variables of a container in a namespace: for the API server, and for the Services of the namespace if the
/// pod wants links.
pub fn variables(services: &[Arc<Service>], namespace: &str, wants_links: bool) -> BTreeMap<String, String> {
    let is_master = |service: &Service| (service.namespace(), service.name()) == MASTER;
    let is_linked = |service: &Service| wants_links && service.namespace() == namespace;
    let mut found = BTreeMap::new();
    // A Service of the pod's own namespace goes before the API server's.
    let master = services.iter().filter(|service| is_master(service));
    for service in master.chain(services.iter().filter(|service| is_linked(service))) {
        found.extend(of_service(service));
    }
    found
}

fn of_service(service: &Service) -> Vec<(String, String)> {
    let Some(spec) = &service.spec else { return Vec::new() };
    let Some(ip) = spec.cluster_ip.as_deref().filter(|ip| !ip.is_empty() && *ip != "None") else { return Vec::new() };
    let ports = spec.ports.as_deref().unwrap_or_default();
    let Some(first) = ports.first() else { return Vec::new() };
    if spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let prefix = variable_name(service.name());
    let host = if ip.contains(':') { format!("[{ip}]") } else { ip.to_owned() };
    let mut found = vec![
        (format!("{prefix}_SERVICE_HOST"), ip.to_owned()),
        (format!("{prefix}_SERVICE_PORT"), first.port.to_string()),
    ];
    for port in ports {
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            found.push((format!("{prefix}_SERVICE_PORT_{}", variable_name(name)), port.port.to_string()));
        }
    }
    for (number, port) in ports.iter().enumerate() {
        let protocol = port.protocol.as_deref().unwrap_or("TCP");
        let url = format!("{}://{host}:{}", protocol.to_lowercase(), port.port);
        if number == 0 {
            found.push((format!("{prefix}_PORT"), url.clone()));
        }
        let link = format!("{prefix}_PORT_{}_{}", port.port, protocol.to_uppercase());
        found.push((link.clone(), url));
        found.push((format!("{link}_PROTO"), protocol.to_lowercase()));
        found.push((format!("{link}_PORT"), port.port.to_string()));
        found.push((format!("{link}_ADDR"), ip.to_owned()));
    }
    found
}

fn variable_name(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(namespace: &str, name: &str, spec: Value) -> Arc<Service> {
        let value = json!({"metadata": {"name": name, "namespace": namespace}, "spec": spec});
        Arc::new(Service::decode_value(value).unwrap())
    }

    #[test]
    fn services_are_variables() {
        let kubernetes =
            json!({"clusterIP": "10.96.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP"}]});
        let redis = json!({"clusterIP": "10.0.0.11", "ports": [
            {"name": "p", "port": 6379, "protocol": "TCP"}, {"name": "u-d", "port": 53, "protocol": "UDP"},
        ]});
        let all = [
            service("default", "kubernetes", kubernetes),
            service("shop", "redis-primary", redis),
            service("shop", "headless", json!({"clusterIP": "None", "ports": [{"port": 1}]})),
            service("shop", "far", json!({"type": "ExternalName", "externalName": "x"})),
            service("shop", "v6", json!({"clusterIP": "fd00::1", "ports": [{"port": 80}]})),
            service("other", "web", json!({"clusterIP": "10.0.0.12", "ports": [{"port": 80}]})),
        ];
        let shown = |namespace: &str, wants_links: bool| {
            let found = variables(&all, namespace, wants_links);
            found.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>()
        };
        let master = [
            "KUBERNETES_PORT=tcp://10.96.0.1:443",
            "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443",
            "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
            "KUBERNETES_PORT_443_TCP_PORT=443",
            "KUBERNETES_PORT_443_TCP_PROTO=tcp",
            "KUBERNETES_SERVICE_HOST=10.96.0.1",
            "KUBERNETES_SERVICE_PORT=443",
            "KUBERNETES_SERVICE_PORT_HTTPS=443",
        ];
        assert_eq!(shown("shop", false), master);
        let linked = [
            "REDIS_PRIMARY_PORT=tcp://10.0.0.11:6379",
            "REDIS_PRIMARY_PORT_53_UDP=udp://10.0.0.11:53",
            "REDIS_PRIMARY_PORT_53_UDP_ADDR=10.0.0.11",
            "REDIS_PRIMARY_PORT_53_UDP_PORT=53",
            "REDIS_PRIMARY_PORT_53_UDP_PROTO=udp",
            "REDIS_PRIMARY_PORT_6379_TCP=tcp://10.0.0.11:6379",
            "REDIS_PRIMARY_PORT_6379_TCP_ADDR=10.0.0.11",
            "REDIS_PRIMARY_PORT_6379_TCP_PORT=6379",
            "REDIS_PRIMARY_PORT_6379_TCP_PROTO=tcp",
            "REDIS_PRIMARY_SERVICE_HOST=10.0.0.11",
            "REDIS_PRIMARY_SERVICE_PORT=6379",
            "REDIS_PRIMARY_SERVICE_PORT_P=6379",
            "REDIS_PRIMARY_SERVICE_PORT_U_D=53",
            "V6_PORT=tcp://[fd00::1]:80",
            "V6_PORT_80_TCP=tcp://[fd00::1]:80",
            "V6_PORT_80_TCP_ADDR=fd00::1",
            "V6_PORT_80_TCP_PORT=80",
            "V6_PORT_80_TCP_PROTO=tcp",
            "V6_SERVICE_HOST=fd00::1",
            "V6_SERVICE_PORT=80",
        ];
        assert_eq!(shown("shop", true), [&master[..], &linked[..]].concat());
    }
}
