//! Columns of Endpoints and EndpointSlices: the first few addresses behind a service.
//!
//! Corresponds to formatEndpoints and its like in pkg/printers/internalversion/printers.go.

use super::read::{int_at, items, str_at};
use super::{Column, age, name, read, string, text};
use serde_json::{Value, json};

/// Number of entries that are listed before the rest is counted.
const SHOWN: usize = 3;

pub fn endpoints_columns() -> Vec<Column> {
    vec![
        name(),
        string("Endpoints", "The ready addresses, with their ports.", |object, _| json!(endpoints(object))),
        age(),
    ]
}

pub fn slice_columns() -> Vec<Column> {
    vec![
        name(),
        text("AddressType", "What kind of addresses the slice holds.", "/addressType"),
        string("Ports", "The ports of every endpoint.", |slice, _| json!(slice_ports(slice))),
        string("Endpoints", "The addresses.", |slice, _| json!(slice_endpoints(slice))),
        age(),
    ]
}

fn endpoints(object: &Value) -> String {
    let subsets = items(object, "/subsets");
    if subsets.is_empty() {
        return "<none>".to_owned();
    }
    let mut list = Vec::new();
    for subset in subsets {
        let addresses = || items(subset, "/addresses").iter().map(|address| str_at(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            list.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            list.extend(addresses().map(|ip| host_port(ip, int_at(port, "/port"))));
        }
    }
    read::abridged(&list, SHOWN, ",")
}

/// Joins address and port. An IPv6 address is put into brackets.
fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

fn slice_ports(slice: &Value) -> String {
    let port = |port: &Value| match (port.get("port").and_then(Value::as_i64), str_at(port, "/name")) {
        (Some(number), _) => number.to_string(),
        (None, "") => "*".to_owned(),
        (None, name) => name.to_owned(),
    };
    or_unset(&items(slice, "/ports").iter().map(port).collect::<Vec<_>>())
}

fn slice_endpoints(slice: &Value) -> String {
    let addresses = items(slice, "/endpoints").iter().flat_map(|endpoint| items(endpoint, "/addresses"));
    or_unset(&addresses.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>())
}

fn or_unset(list: &[String]) -> String {
    if list.is_empty() { "<unset>".to_owned() } else { read::abridged(list, SHOWN, ",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_are_shown_and_the_rest_counted() {
        let cases = [
            (json!({}), "<none>"),
            (
                json!({"subsets": [{"addresses": [{"ip": "192.0.2.9"}, {"ip": "192.0.2.3"}],
                    "notReadyAddresses": [{"ip": "192.0.2.4"}], "ports": [{"port": 80}, {"port": 53}]}]}),
                "192.0.2.9:80,192.0.2.3:80,192.0.2.9:53 + 1 more...",
            ),
            (json!({"subsets": [{"addresses": [{"ip": "192.0.2.9"}]}]}), "192.0.2.9"),
            (json!({"subsets": [{"addresses": [{"ip": "::1"}], "ports": [{"port": 1}]}]}), "[::1]:1"),
        ];
        for (object, expected) in cases {
            assert_eq!(endpoints(&object), expected);
        }
        let slice = json!({"ports": [{"port": 80}, {"name": "any"}, {}],
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}, {"addresses": ["10.0.0.3"]}, {"addresses": ["10.0.0.4"]}]});
        assert_eq!(slice_ports(&slice), "80,any,*");
        assert_eq!(slice_endpoints(&slice), "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...");
        assert_eq!((slice_ports(&json!({})), slice_endpoints(&json!({}))), ("<unset>".into(), "<unset>".into()));
    }
}
