//! Columns of ingresses: their hosts, addresses and ports.
//!
//! Corresponds to printIngress in pkg/printers/internalversion/printers.go.

use super::read::{items, str_at};
use super::service::load_balancer;
use super::{Column, age, name, read, string, text};
use serde_json::{Value, json};

const HOSTS_SHOWN: usize = 3;

pub fn columns() -> Vec<Column> {
    vec![
        name(),
        text("Class", "Which controller serves it.", "/spec/ingressClassName").or("<none>"),
        string("Hosts", "The hosts that its rules name.", |ingress, _| json!(hosts(ingress))),
        string("Address", "The addresses of its load balancer.", |ingress, _| json!(load_balancer(ingress))),
        string("Ports", "The ports it listens on.", |ingress, _| {
            json!(if items(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" })
        }),
        age(),
    ]
}

fn hosts(ingress: &Value) -> String {
    let rules = items(ingress, "/spec/rules");
    let named: Vec<&str> = rules.iter().map(|rule| str_at(rule, "/host")).filter(|host| !host.is_empty()).collect();
    if named.is_empty() {
        return "*".to_owned();
    }
    let shown = read::joined(named.iter().copied().take(HOSTS_SHOWN), ",");
    // Once the list is full, rules without a host count among the rest.
    let full_at = rules.iter().enumerate().filter(|(_, rule)| !str_at(rule, "/host").is_empty()).nth(HOSTS_SHOWN - 1);
    match full_at {
        Some((i, _)) if i + 1 < rules.len() => format!("{shown} + {} more...", rules.len() - HOSTS_SHOWN),
        _ => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cells;
    use super::*;

    #[test]
    fn hosts_class_and_ports() {
        let ingress = json!({
            "metadata": {"name": "i", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "spec": {"ingressClassName": "edge", "tls": [{}], "rules": [{"host": "a.example"}, {"host": "*.b.example"}]},
        });
        assert_eq!(cells(&columns(), &ingress, 60), "i | edge | a.example,*.b.example |  | 80, 443 | 60s");
        assert_eq!(cells(&columns()[1..5], &json!({}), 60), "<none> | * |  | 80");
        let many: Vec<Value> = (0..5).map(|i| json!({"host": format!("h{i}")})).collect();
        assert_eq!(hosts(&json!({"spec": {"rules": many}})), "h0,h1,h2 + 2 more...");
        assert_eq!(hosts(&json!({"spec": {"rules": many[..3]}})), "h0,h1,h2");
    }
}
