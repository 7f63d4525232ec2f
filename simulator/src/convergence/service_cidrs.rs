//! Finds ServiceCIDRs that are kept without need, and cluster IPs without an IPAddress.

use super::{Objects, items, text};
use ipnet::IpNet;
use serde_json::Value;
use std::net::IpAddr;

/// Checks that a ServiceCIDR is ready; if it is being deleted, that it says which addresses it waits for.
pub fn check(service_cidr: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let is_deleting = |object: &Value| object.pointer("/metadata/deletionTimestamp").is_some();
    let others = objects.below("/registry/servicecidrs/").filter(|other| !is_deleting(other));
    let others: Vec<IpNet> = others.flat_map(ranges).collect();
    let is_only_here = |address: &IpAddr| {
        ranges(service_cidr).any(|range| range.contains(address)) && !others.iter().any(|range| range.contains(address))
    };
    let addresses = objects.below("/registry/ipaddresses/").filter_map(|it| text(it, "/metadata/name").parse().ok());
    let is_needed = addresses.into_iter().any(|address: IpAddr| is_only_here(&address));
    let ready = items(service_cidr, "/status/conditions").iter().find(|condition| condition["type"] == "Ready");
    let wanted = match (is_deleting(service_cidr), is_needed) {
        (true, false) => return reasons.push("is being deleted, and nothing needs it".to_owned()),
        (true, true) => "False",
        (false, _) => "True",
    };
    if ready.is_none_or(|ready| ready["status"] != wanted) {
        reasons.push(format!("is not Ready={wanted}"));
    }
}

fn ranges(service_cidr: &Value) -> impl Iterator<Item = IpNet> {
    items(service_cidr, "/spec/cidrs").iter().filter_map(|cidr| cidr.as_str()?.parse().ok())
}

/// Checks that the cluster IPs of a Service are reserved.
pub fn service(service: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    for address in items(service, "/spec/clusterIPs").iter().filter_map(Value::as_str).filter(|ip| *ip != "None") {
        if !objects.by_key.contains_key(&format!("/registry/ipaddresses/{address}")) {
            reasons.push(format!("has {address}, which no IPAddress reserves"));
        }
    }
}
