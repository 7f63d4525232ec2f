//! Selects the endpoints of a service port that a node may use.
//!
//! Pure. Corresponds to CategorizeEndpoints of pkg/proxy/topology.go.

use super::{Endpoint, ServicePort};
use std::collections::BTreeMap;

/// The endpoints that one node's rules use for a service port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Categorized<'a> {
    /// Endpoints for traffic with the Cluster policy.
    pub cluster: Vec<&'a Endpoint>,
    /// Endpoints for traffic with a Local policy: those on this node.
    pub local: Vec<&'a Endpoint>,
    /// The endpoints of both lists, each once.
    pub reachable: Vec<&'a Endpoint>,
    /// True when an endpoint on any node could serve. Without one, traffic is rejected; otherwise it may be dropped.
    pub has_usable: bool,
}

/// The clients to which hints restrict endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topology {
    SameNode,
    SameZone,
}

/// Selects the ready endpoints, only near ones when hints say so. When none is ready, it selects those that still serve
/// while they terminate.
pub fn categorize<'a>(endpoints: &'a [Endpoint], port: &ServicePort, node: &str, zone: &str) -> Categorized<'a> {
    let topology = topology(endpoints, node, zone);
    let is_near = |endpoint: &Endpoint| match topology {
        None => true,
        Some(Topology::SameNode) => endpoint.node_hints.iter().any(|hint| hint == node),
        Some(Topology::SameZone) => endpoint.zone_hints.iter().any(|hint| hint == zone),
    };
    let is_here = |endpoint: &Endpoint| !node.is_empty() && endpoint.node == node;
    let cluster = match port.uses_cluster() {
        true => ready(endpoints, is_near).unwrap_or_else(|| serving_terminating(endpoints, |_| true)),
        false => Vec::new(),
    };
    let local = match port.uses_local() {
        true => ready(endpoints, is_here).unwrap_or_else(|| serving_terminating(endpoints, is_here)),
        false => Vec::new(),
    };
    let has_usable = endpoints.iter().any(|endpoint| endpoint.ready || is_serving_terminating(endpoint));
    let both: BTreeMap<String, &Endpoint> = cluster.iter().chain(&local).map(|e| (e.to_string(), *e)).collect();
    Categorized { has_usable, reachable: both.into_values().collect(), cluster, local }
}

fn is_serving_terminating(endpoint: &Endpoint) -> bool {
    endpoint.serving && endpoint.terminating
}

/// Returns the ready endpoints; `None` when there are none.
fn ready(endpoints: &[Endpoint], admits: impl Fn(&Endpoint) -> bool) -> Option<Vec<&Endpoint>> {
    let found: Vec<&Endpoint> = endpoints.iter().filter(|e| e.ready && admits(e)).collect();
    (!found.is_empty()).then_some(found)
}

fn serving_terminating(endpoints: &[Endpoint], admits: impl Fn(&Endpoint) -> bool) -> Vec<&Endpoint> {
    endpoints.iter().filter(|e| is_serving_terminating(e) && admits(e)).collect()
}

/// Returns which hints are used: they count when every ready endpoint has some and at least one names this node, or
/// else its zone.
fn topology(endpoints: &[Endpoint], node: &str, zone: &str) -> Option<Topology> {
    let holds = |hints: fn(&Endpoint) -> &[String], wanted: &str| {
        let mut ready = endpoints.iter().filter(|e| e.ready).map(hints);
        ready.clone().all(|hints| !hints.is_empty()) && ready.any(|hints| hints.iter().any(|hint| hint == wanted))
    };
    if holds(|e| &e.node_hints, node) {
        Some(Topology::SameNode)
    } else if holds(|e| &e.zone_hints, zone) {
        Some(Topology::SameZone)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: ServicePort = ServicePort {
        cluster_ip: String::new(),
        port: 80,
        node_port: 0,
        external_ips: Vec::new(),
        load_balancer_ips: Vec::new(),
        load_balancer_source_ranges: Vec::new(),
        affinity_s: None,
        internal_local: false,
        external_local: false,
        health_check_node_port: 0,
    };

    /// `1@a`: ready on node `a`. `-`: not ready. `~`: not ready, terminating, serving. `/z`, `=n`: hints.
    fn endpoints(text: &str) -> Vec<Endpoint> {
        let endpoint = |word: &str| {
            let (state, word) = match word.split_at(1) {
                (mark @ ("-" | "~"), rest) => (mark, rest),
                _ => ("", word),
            };
            let (place, node_hint) = word.split_once('=').unwrap_or((word, ""));
            let (place, zone_hint) = place.split_once('/').unwrap_or((place, ""));
            let (ip, node) = place.split_once('@').unwrap();
            let hints = |hint: &str| if hint.is_empty() { vec![] } else { vec![hint.to_owned()] };
            Endpoint {
                ip: ip.to_owned(),
                port: 80,
                node: node.to_owned(),
                ready: state.is_empty(),
                serving: state != "-",
                terminating: state == "~",
                zone_hints: hints(zone_hint),
                node_hints: hints(node_hint),
            }
        };
        text.split_whitespace().map(endpoint).collect()
    }

    /// Cluster | local | reachable, on node `a` of zone `z`; `!` in front when no endpoint is usable.
    fn check(port: &ServicePort, all: &str, expected: &str) {
        let endpoints = endpoints(all);
        let found = categorize(&endpoints, port, "a", "z");
        let list = |endpoints: &[&Endpoint]| endpoints.iter().map(|e| e.ip.as_str()).collect::<Vec<_>>().join("");
        let shown = format!("{}|{}|{}", list(&found.cluster), list(&found.local), list(&found.reachable));
        assert_eq!(if found.has_usable { shown } else { format!("!{shown}") }, expected, "{all}");
    }

    #[test]
    fn the_ready_serve_and_without_them_those_who_leave() {
        check(&CLUSTER, "1@a 2@b -3@a ~4@b", "12||12");
        check(&CLUSTER, "-3@a ~4@b ~5@a", "45||45");
        check(&CLUSTER, "-3@a", "!||");
        check(&CLUSTER, "", "!||");
    }

    #[test]
    fn local_policies_look_at_their_own_node_first() {
        let internal = ServicePort { internal_local: true, ..CLUSTER };
        check(&internal, "1@a 2@b", "|1|1");
        check(&internal, "2@b", "||");
        check(&internal, "2@b ~3@a", "|3|3");
        check(&internal, "-2@b", "!||");
        let external = ServicePort { external_local: true, node_port: 30080, ..CLUSTER };
        check(&external, "1@a 2@b", "12|1|12");
        // The local one leaves, but is all that Local traffic has; the rest of the world uses the ready one.
        check(&external, "2@b ~3@a", "2|3|23");
    }

    #[test]
    fn hints_count_if_all_have_them_and_one_is_for_us() {
        check(&CLUSTER, "1@a/z 2@b/z 3@c/y", "12||12");
        check(&CLUSTER, "1@a/z 2@b 3@c/y", "123||123");
        check(&CLUSTER, "1@a/x 2@b/y", "12||12");
        check(&CLUSTER, "1@a/z=a 2@b/z=b", "1||1");
        check(&CLUSTER, "1@c/z=c 2@b/y=b", "1||1");
        // Only the ready are asked.
        check(&CLUSTER, "1@a/z 2@b/y -3@c", "1||1");
        let external = ServicePort { external_local: true, node_port: 30080, ..CLUSTER };
        check(&external, "1@a/y 2@b/z", "2|1|12");
    }
}
