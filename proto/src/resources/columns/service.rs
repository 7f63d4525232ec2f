//! Columns of services: their addresses inside and outside the cluster, and their ports.
//!
//! Corresponds to printService in pkg/printers/internalversion/printers.go.

use super::read::{int_at, items, str_at};
use super::{Column, age, name, read, string, text};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub fn columns() -> Vec<Column> {
    vec![
        name(),
        text("Type", "How the service is exposed.", "/spec/type"),
        text("Cluster-IP", "The address inside the cluster.", "/spec/clusterIPs/0").or("<none>"),
        string("External-IP", "The addresses outside the cluster.", |service, _| json!(external_ip(service))),
        string("Port(s)", "Port, node port and protocol.", |service, _| json!(ports(service))),
        age(),
        string("Selector", "Which pods are behind the service.", |service, _| read::labels(service, "/spec/selector"))
            .wide(),
    ]
}

/// Returns the addresses that a load balancer reports, sorted and without duplicates.
pub fn load_balancer(object: &Value) -> String {
    let address = |ingress: &Value| match str_at(ingress, "/ip") {
        "" => str_at(ingress, "/hostname").to_owned(),
        ip => ip.to_owned(),
    };
    let addresses: BTreeSet<String> =
        items(object, "/status/loadBalancer/ingress").iter().map(address).filter(|a| !a.is_empty()).collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn external_ip(service: &Value) -> String {
    let external = read::joined(items(service, "/spec/externalIPs").iter().filter_map(Value::as_str), ",");
    let or = |text: String, otherwise: &str| if text.is_empty() { otherwise.to_owned() } else { text };
    match str_at(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or(external, "<none>"),
        "LoadBalancer" => {
            let parts = [load_balancer(service), external];
            or(read::joined(parts.iter().map(String::as_str).filter(|part| !part.is_empty()), ","), "<pending>")
        }
        "ExternalName" => str_at(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let (number, protocol) = (int_at(port, "/port"), str_at(port, "/protocol"));
        match int_at(port, "/nodePort") {
            0 => format!("{number}/{protocol}"),
            node_port => format!("{number}:{node_port}/{protocol}"),
        }
    };
    let ports: Vec<String> = items(service, "/spec/ports").iter().map(port).collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn every_type_of_service() {
        let ingress = json!({"loadBalancer": {"ingress": [{"ip": "198.51.100.2"}, {"hostname": "a.example"}, {"ip": "198.51.100.1"}]}});
        let cases = [
            (
                json!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1"], "selector": {"b": "2", "a": "1"},
                    "ports": [{"port": 80, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
                json!({}),
                "ClusterIP | 10.0.0.1 | <none> | 80/TCP,53/UDP | 60s | a=1,b=2",
            ),
            (
                json!({"type": "NodePort", "clusterIPs": ["10.0.0.1"], "externalIPs": ["192.0.2.1", "192.0.2.2"],
                    "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}),
                json!({}),
                "NodePort | 10.0.0.1 | 192.0.2.1,192.0.2.2 | 80:30080/TCP | 60s | <none>",
            ),
            (
                json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"]}),
                json!({}),
                "LoadBalancer | 10.0.0.1 | <pending> | <none> | 60s | <none>",
            ),
            (
                json!({"type": "LoadBalancer", "clusterIPs": ["10.0.0.1"], "externalIPs": ["192.0.2.1"]}),
                ingress,
                "LoadBalancer | 10.0.0.1 | 198.51.100.1,198.51.100.2,a.example,192.0.2.1 | <none> | 60s | <none>",
            ),
            (
                json!({"type": "ExternalName", "externalName": "db.example"}),
                json!({}),
                "ExternalName | <none> | db.example | <none> | 60s | <none>",
            ),
        ];
        for (spec, status, expected) in cases {
            let metadata = json!({"name": "s", "creationTimestamp": "1970-01-01T00:00:00Z"});
            let service = json!({"metadata": metadata, "spec": spec, "status": status});
            assert_eq!(cells(&columns()[1..], &service, 60), expected);
        }
    }
}
