//! Validates Endpoints and EndpointSlices.
//!
//! Corresponds to ValidateEndpoints of pkg/apis/core/validation and pkg/apis/discovery/validation.

use super::pod::containers::PROTOCOLS;
use super::service::check_endpoint_ip;
use crate::write_context::WriteContext;
use field_checks::at::{At, Errors, check_ip, check_port_number};
use proto::meta::names;
use proto::meta::status::FieldError;
use std::collections::BTreeSet;
use std::net::IpAddr;

type Context<'a> = WriteContext<'a>;

const MAX_ENDPOINTS: usize = 1000;
const MAX_ADDRESSES: usize = 100;
const MAX_PORTS: usize = 20_000;
const MAX_ZONE_HINTS: usize = 8;

/// Returns whether the object is the endpoints of the API server, `default/kubernetes`.
///
/// Deviation: the API server's own endpoints may have a loopback address, because a cluster on one machine serves there.
fn is_api_server(object: &At<'_>) -> bool {
    object.down("metadata.namespace").text() == "default" && object.down("metadata.name").text() == "kubernetes"
}

pub fn endpoints(_context: &Context<'_>, endpoints: &At<'_>, errors: &mut Errors) {
    let is_api_server = is_api_server(endpoints);
    for subset in endpoints.field("subsets").items() {
        let (ready, not_ready) = (subset.field("addresses"), subset.field("notReadyAddresses"));
        if ready.is_empty() && not_ready.is_empty() {
            errors.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for address in ready.items().chain(not_ready.items()) {
            let (ip, host, node) = (address.field("ip"), address.field("hostname"), address.field("nodeName"));
            check_ip(&ip, errors);
            if !host.is_empty() {
                host.check(names::dns1123_label, errors);
            }
            if node.is_set() {
                node.check(names::dns1123_subdomain, errors);
            }
            if ip.text().parse::<IpAddr>().is_err() {
                errors.push(ip.invalid_text("must be a valid IP address"));
            }
            if !is_api_server {
                check_endpoint_ip(&ip, errors);
            }
        }
        let many = subset.field("ports").len() > 1;
        for port in subset.field("ports").items() {
            let name = port.field("name");
            if many && name.is_empty() {
                errors.push(name.required(""));
            } else if !name.is_empty() {
                name.check(names::dns1123_label, errors);
            }
            check_port_number(&port.field("port"), errors);
            port.field("protocol").check_enum(PROTOCOLS, errors);
            if port.field("appProtocol").is_set() {
                port.field("appProtocol").check(names::qualified_name, errors);
            }
        }
    }
}

pub fn slice(_context: &Context<'_>, slice: &At<'_>, errors: &mut Errors) {
    let family = slice.field("addressType");
    family.check_enum(&["FQDN", "IPv4", "IPv6"], errors);
    slice_endpoints(&slice.field("endpoints"), family.text(), is_api_server(slice), errors);
    slice_ports(&slice.field("ports"), errors);
}

fn slice_endpoints(endpoints: &At<'_>, family: &str, is_api_server: bool, errors: &mut Errors) {
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(FieldError::too_many(endpoints.path.clone(), endpoints.len(), MAX_ENDPOINTS));
        return;
    }
    for endpoint in endpoints.items() {
        let addresses = endpoint.field("addresses");
        if addresses.is_empty() {
            errors.push(addresses.required("must contain at least 1 address"));
        } else if addresses.len() > MAX_ADDRESSES {
            errors.push(FieldError::too_many(addresses.path.clone(), addresses.len(), MAX_ADDRESSES));
        } else {
            addresses.items().for_each(|address| slice_address(&addresses, &address, family, is_api_server, errors));
        }
        if endpoint.field("nodeName").is_set() {
            endpoint.field("nodeName").check(names::dns1123_subdomain, errors);
        }
        let topology = endpoint.field("deprecatedTopology");
        topology.check_labels(errors);
        if endpoint.field("hostname").is_set() {
            endpoint.field("hostname").check(names::dns1123_label, errors);
        }
        hints(&endpoint.field("hints"), errors);
    }
}

/// Checks one address. Kubernetes reports the list if the address is of the wrong family, and the item if it is invalid.
fn slice_address(list: &At<'_>, address: &At<'_>, family: &str, is_api_server: bool, errors: &mut Errors) {
    let wrong = |what: &str| At::new(list.path.clone(), address.value).invalid(format!("must be an {what} address"));
    let parsed = address.text().parse::<IpAddr>();
    match family {
        "FQDN" => address.check(names::dns1123_subdomain, errors),
        "IPv4" | "IPv6" => {
            let before = errors.len();
            check_ip(address, errors);
            let is_address = errors.len() == before;
            if is_address && parsed.is_ok_and(|ip| ip.is_ipv4() != (family == "IPv4")) {
                errors.push(wrong(family));
            }
            if is_address && !is_api_server {
                check_endpoint_ip(address, errors);
            }
        }
        _ => {}
    }
}

fn hints(hints: &At<'_>, errors: &mut Errors) {
    for (list, check) in
        [("forZones", names::label_value as fn(&str) -> Vec<String>), ("forNodes", names::dns1123_subdomain)]
    {
        let entries = hints.field(list);
        if entries.len() > MAX_ZONE_HINTS {
            errors.push(FieldError::too_many(entries.path.clone(), entries.len(), MAX_ZONE_HINTS));
            return;
        }
        let mut seen = BTreeSet::new();
        for entry in entries.items() {
            let name = entry.field("name");
            if !seen.insert(name.text()) {
                errors.push(name.duplicate());
            }
            name.check(check, errors);
        }
    }
}

fn slice_ports(ports: &At<'_>, errors: &mut Errors) {
    if ports.len() > MAX_PORTS {
        errors.push(FieldError::too_many(ports.path.clone(), ports.len(), MAX_PORTS));
        return;
    }
    let mut seen = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.is_empty() {
            name.check(names::dns1123_label, errors);
        }
        if !seen.insert(name.text()) {
            errors.push(name.duplicate());
        }
        port.field("protocol").check_enum(PROTOCOLS, errors);
        if port.field("appProtocol").is_set() {
            port.field("appProtocol").check(names::qualified_name, errors);
        }
    }
}

pub fn slice_update(_context: &Context<'_>, slice: &At<'_>, old: &At<'_>, errors: &mut Errors) {
    slice.field("addressType").check_unchanged(&old.field("addressType"), errors);
}

#[cfg(test)]
mod tests {
    use crate::testing::create;
    use serde_json::{Value, json};

    #[test]
    fn the_range_of_an_address_is_checked_last() {
        let address = |address: Value| {
            let subset = json!({"addresses": [address], "ports": [{"port": 80}]});
            create(json!({"apiVersion": "v1", "kind": "Endpoints", "subsets": [subset]}))
        };
        let at = "subsets[0].addresses[0]";
        let errors = address(json!({"ip": "127.0.0.1", "hostname": "A", "nodeName": ""}));
        let fields: Vec<&str> = errors.iter().map(|error| error.split(": ").next().unwrap()).collect();
        assert_eq!(fields, [&format!("{at}.hostname"), &format!("{at}.nodeName"), &format!("{at}.ip")]);
        assert_eq!(
            address(json!({"ip": "10.0.0.01"}))[0],
            format!("{at}.ip: Invalid value: \"10.0.0.01\": must not have leading 0s")
        );
    }

    #[test]
    fn the_range_of_an_address_is_checked_even_if_its_family_is_wrong() {
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [],
            "endpoints": [{"addresses": ["::1"]}],
        });
        assert_eq!(
            create(slice),
            [
                "endpoints[0].addresses: Invalid value: \"::1\": must be an IPv4 address",
                "endpoints[0].addresses[0]: Invalid value: \"::1\": may not be in the loopback range (127.0.0.0/8, ::1/128)",
            ]
        );
    }
}
