//! Finds what differs between what the cluster asks of its cloud and what the cloud holds: load balancers, machines and routes.

use super::{Objects, Unconverged, items, number, text};
use crate::safety::load_balancers::balancer_of;
use proto::meta::node_labels::EXCLUDE_BALANCERS;
use serde_json::Value;
use simulated_cloud::model::{Holdings, LoadBalancer};
use std::collections::{BTreeMap, BTreeSet};

const SERVICES: &str = "/registry/services/specs/";
const NODES: &str = "/registry/minions/";

/// Returns all differences.
pub fn differences(objects: &Objects, holdings: &Holdings) -> Vec<Unconverged> {
    let mut found = Vec::new();
    let mut report = |key: String, why: String| found.push(Unconverged { key, why });
    let nodes: Vec<&Value> = objects.below(NODES).collect();
    let backends = nodes.iter().filter(|node| node["metadata"]["labels"][EXCLUDE_BALANCERS].is_null());
    let backends: Vec<&str> = backends.map(|node| text(node, "/metadata/name")).collect();
    let mut left: BTreeSet<&String> = holdings.load_balancers.keys().collect();
    for service in objects.below(SERVICES).filter(|service| service["spec"]["type"] == "LoadBalancer") {
        let name = balancer_of(text(service, "/metadata/uid"));
        left.remove(&name);
        let of_service = |field: &str| text(service, &format!("/metadata/{field}")).to_owned();
        let key = format!("{SERVICES}{}/{}", of_service("namespace"), of_service("name"));
        let why = holdings.load_balancers.get(&name).map_or(Some("has no load balancer".to_owned()), |balancer| {
            let is_good = fits(service, balancer, &backends);
            (!is_good).then(|| format!("has the load balancer {balancer:?}; {backends:?} are to be its backends"))
        });
        why.into_iter().for_each(|why| report(key.clone(), why));
    }
    left.into_iter().for_each(|name| report(SERVICES.to_owned(), format!("the load balancer {name} is left over")));
    let names: BTreeSet<&str> = nodes.iter().map(|node| text(node, "/metadata/name")).collect();
    let machines: BTreeSet<&str> = holdings.machines.keys().map(String::as_str).collect();
    if names != machines {
        report(NODES.to_owned(), format!("there are the nodes {names:?} and the machines {machines:?}"));
    }
    for node in &nodes {
        let name = text(node, "/metadata/name");
        for why in unfinished(node) {
            report(format!("{NODES}{name}"), why);
        }
    }
    let wanted: BTreeMap<&str, &str> =
        nodes.iter().map(|node| (text(node, "/spec/podCIDR"), text(node, "/metadata/name"))).collect();
    let routes: BTreeMap<&str, &str> =
        holdings.routes.values().map(|route| (route.destination.as_str(), route.machine.as_str())).collect();
    if wanted != routes {
        report(NODES.to_owned(), format!("the pods' ranges are {wanted:?}, and the routes {routes:?}"));
    }
    found
}

/// Returns true if a load balancer has the ports of its Service and these backends, and if the Service has its address.
fn fits(service: &Value, balancer: &LoadBalancer, backends: &[&str]) -> bool {
    let ports: Vec<(i64, i64)> =
        items(service, "/spec/ports").iter().map(|port| (number(port, "/port"), number(port, "/nodePort"))).collect();
    let served: Vec<(i64, i64)> = balancer
        .spec
        .ports
        .iter()
        .map(|served| (i64::from(served.port), i64::from(served.node_port.unwrap_or_default())))
        .collect();
    let address = text(service, "/status/loadBalancer/ingress/0/ip");
    ports == served && balancer.spec.backends == backends && address == balancer.address.to_string()
}

/// Returns what the cloud's controllers have still to write into a node.
fn unfinished(node: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let id = format!("orrery://{}", text(node, "/metadata/name"));
    if text(node, "/spec/providerID") != id {
        found.push(format!("does not have the provider ID {id}"));
    }
    let has_route = |condition: &Value| condition["type"] == "NetworkUnavailable" && condition["status"] == "False";
    if !items(node, "/status/conditions").iter().any(has_route) {
        found.push("is not NetworkUnavailable=False".to_owned());
    }
    found
}
