//! Compares the cloud's routes with the pod ranges of nodes, and says on each node whether its routes exist.
//!
//! Corresponds to reconcile and updateNetworkingCondition in k8s.io/cloud-provider/controllers/route/route_controller.go.

use crate::cloud_nodes::{condition, machine_name};
use crate::steps::Order;
use client::{Action, Patch};
use controller_base::clock::stamp;
use ipnet::IpNet;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use serde_json::json;
use simulated_cloud::model::Route;
use std::sync::Arc;

const TYPE: &str = "NetworkUnavailable";

#[derive(Debug)]
pub struct Observed {
    pub nodes: Vec<Arc<Node>>,
    pub routes: Vec<Route>,
    /// Ranges of all pods: routes to other destinations are somebody else's.
    pub cluster_cidrs: Vec<IpNet>,
}

/// Returns the ranges of the node's pods.
pub fn pod_cidrs(node: &Node) -> &[String] {
    node.spec.as_ref().and_then(|spec| spec.pod_cidrs.as_deref()).unwrap_or_default()
}

/// Returns the routes that the node needs.
fn wanted(node: &Node) -> impl Iterator<Item = Route> + '_ {
    let machine = machine_name(node).filter(|_| !node.is_deleting());
    let cidrs = machine.into_iter().flat_map(move |machine| pod_cidrs(node).iter().map(move |cidr| (machine, cidr)));
    cidrs.map(move |(machine, cidr)| Route {
        name: format!("{}-{}", node.name(), cidr.replace(['.', ':', '/'], "-")),
        destination: cidr.clone(),
        machine: machine.to_owned(),
    })
}

/// Returns the orders that make the routes right. Deletions come first, because a range may have a new owner.
pub fn orders(observed: &Observed) -> Vec<Order> {
    let needed: Vec<Route> = observed.nodes.iter().flat_map(|node| wanted(node)).collect();
    let is_ours = |route: &Route| {
        let destination = route.destination.parse::<IpNet>();
        destination.is_ok_and(|destination| observed.cluster_cidrs.iter().any(|cidr| overlap(cidr, &destination)))
    };
    let stale = observed.routes.iter().filter(|route| is_ours(route) && !needed.contains(route));
    let deletions: Vec<Order> = stale.map(|route| Order::DeleteRoute { name: route.name.clone() }).collect();
    let missing = needed.into_iter().filter(|route| !observed.routes.contains(route));
    deletions.into_iter().chain(missing.map(Order::PutRoute)).collect()
}

fn overlap(a: &IpNet, b: &IpNet) -> bool {
    a.contains(b) || b.contains(a)
}

/// Returns the node that a route leads to.
pub fn node_of<'a>(observed: &'a Observed, route: &Route) -> Option<&'a Arc<Node>> {
    observed.nodes.iter().find(|node| wanted(node).any(|wanted| wanted.name == route.name))
}

/// Returns the conditions to write: whether each node has all its routes. A node without a range has none.
pub fn conditions(observed: &Observed, now: Timestamp) -> Vec<Action> {
    let change = |node: &Arc<Node>| {
        let has_all = !pod_cidrs(node).is_empty() && wanted(node).all(|route| observed.routes.contains(&route));
        let (status, reason, message) = match has_all {
            true => ("False", "RouteCreated", "RouteController created a route"),
            false => ("True", "NoRouteCreated", "RouteController failed to create a route"),
        };
        if condition(node, TYPE).is_some_and(|present| present.status == status) {
            return None;
        }
        let condition = json!({
            "type": TYPE, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": stamp(now), "lastHeartbeatTime": stamp(now),
        });
        let patch = json!({"metadata": {"uid": node.uid()}, "status": {"conditions": [condition]}});
        Some(Action::patch_status::<Node>("", node.name(), Patch::Strategic(patch)))
    };
    let known = observed.nodes.iter().filter(|node| !node.is_deleting() && machine_name(node).is_some());
    known.filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    fn node(name: &str, cidrs: &[&str]) -> Arc<Node> {
        let mut node = fixture::node(name);
        let cidrs = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
        node.spec.get_or_insert_default().pod_cidrs = Some(cidrs);
        Arc::new(node)
    }

    fn route(name: &str, destination: &str, machine: &str) -> Route {
        Route { name: name.into(), destination: destination.into(), machine: machine.into() }
    }

    fn observed(nodes: Vec<Arc<Node>>, routes: Vec<Route>) -> Observed {
        let cluster_cidrs = ["10.244.0.0/16", "fd00:10::/48"].map(|cidr| cidr.parse().unwrap()).into();
        Observed { nodes, routes, cluster_cidrs }
    }

    fn ordered(nodes: Vec<Arc<Node>>, routes: Vec<Route>) -> String {
        orders(&observed(nodes, routes)).iter().map(|order| format!("{order}\n")).collect()
    }

    #[test]
    fn every_range_has_a_route_and_no_other_is_left() {
        let first = route("n1-10-244-1-0-24", "10.244.1.0/24", "n1");
        let nodes =
            vec![node("n1", &["10.244.1.0/24"]), node("n2", &["10.244.2.0/24", "fd00:10:0:2::/64"]), node("n3", &[])];
        let expected = "cloud: put route n1-10-244-1-0-24: 10.244.1.0/24 to n1\n\
                        cloud: put route n2-10-244-2-0-24: 10.244.2.0/24 to n2\n\
                        cloud: put route n2-fd00-10-0-2---64: fd00:10:0:2::/64 to n2\n";
        assert_eq!(ordered(nodes, vec![]), expected);
        assert_eq!(ordered(vec![node("n1", &["10.244.1.0/24"])], vec![first.clone()]), "");
        let elsewhere = route("vpn", "10.9.0.0/16", "n7");
        assert_eq!(ordered(vec![], vec![first.clone(), elsewhere]), "cloud: delete route n1-10-244-1-0-24\n");
        let expected = "cloud: delete route n1-10-244-1-0-24\ncloud: put route n2-10-244-1-0-24: 10.244.1.0/24 to n2\n";
        assert_eq!(ordered(vec![node("n2", &["10.244.1.0/24"])], vec![first]), expected);
        let moved = route("n1-10-244-1-0-24", "10.244.1.0/24", "n0");
        let expected = "cloud: delete route n1-10-244-1-0-24\ncloud: put route n1-10-244-1-0-24: 10.244.1.0/24 to n1\n";
        assert_eq!(ordered(vec![node("n1", &["10.244.1.0/24"])], vec![moved]), expected);
    }

    #[test]
    fn a_node_says_whether_it_has_its_routes() {
        let routes = vec![route("n1-10-244-1-0-24", "10.244.1.0/24", "n1")];
        let mut known = (*node("n4", &[])).clone();
        fixture::set_node_condition(&mut known, TYPE, "True", 0);
        let nodes =
            vec![node("n1", &["10.244.1.0/24"]), node("n2", &["10.244.2.0/24"]), node("n3", &[]), Arc::new(known)];
        let written = conditions(&observed(nodes, routes), fixture::at(0));
        let text: Vec<String> = written.iter().map(ToString::to_string).collect();
        assert_eq!(text.len(), 3, "{text:?}");
        for (line, name, reason) in [
            (&text[0], "n1", r#""reason":"RouteCreated","status":"False""#),
            (&text[1], "n2", r#""reason":"NoRouteCreated","status":"True""#),
            (&text[2], "n3", r#""reason":"NoRouteCreated","status":"True""#),
        ] {
            assert!(line.contains(&format!("nodes/status {name} ")) && line.contains(reason), "{line}");
        }
    }
}
