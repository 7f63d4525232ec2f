//! Tests which zone each endpoint serves, and when there are no hints.

use super::*;
use crate::endpointslice::desired::{Port, identity};
use controller_base::fixture;
use proto::kinds::api::core::v1::{NodeCondition, NodeStatus};
use proto::kinds::api::discovery::v1::EndpointConditions;
use proto::kinds::apimachinery::api::resource::Quantity as Text;
use std::sync::Arc;

/// Returns a ready node, written as `zone:cpu`.
fn node(text: &str) -> Node {
    let (zone, cpu) = text.split_once(':').unwrap();
    let mut node = Node { metadata: fixture::meta(text), ..Node::default() };
    if !zone.is_empty() {
        node.metadata.labels = Some(fixture::labels(&[(ZONE, zone)]));
    }
    let ready = NodeCondition { type_: "Ready".to_owned(), status: "True".to_owned(), ..NodeCondition::default() };
    node.status = Some(NodeStatus {
        allocatable: Some(BTreeMap::from([("cpu".to_owned(), Text(cpu.to_owned()))])),
        conditions: Some(vec![ready]),
        ..NodeStatus::default()
    });
    node
}

fn shares_of(nodes: &str) -> Shares {
    let nodes: Vec<Node> = nodes.split(' ').map(node).collect();
    shares(nodes.iter())
}

/// Returns endpoints, one for each letter, which is its zone. A capital letter is not ready, and `-` has no zone.
fn endpoints(zones: &str) -> Desired {
    let endpoint = |(i, zone): (usize, char)| {
        let endpoint = Endpoint {
            addresses: vec![format!("10.0.0.{}", 100 + i)],
            conditions: Some(EndpointConditions { ready: Some(!zone.is_uppercase()), ..EndpointConditions::default() }),
            zone: (zone != '-').then(|| zone.to_lowercase().to_string()),
            ..Endpoint::default()
        };
        (identity(&endpoint), endpoint)
    };
    let ports: Vec<Port> = Vec::new();
    let group = Group { address_type: "IPv4".to_owned(), ports };
    Desired::from([(group, zones.chars().enumerate().map(endpoint).collect())])
}

/// Returns the zone that each endpoint serves, `.` for one without hint.
fn hints(desired: &Desired) -> String {
    let name =
        |endpoint: &Endpoint| endpoint.hints.as_ref().map(|hints| hints.for_zones.clone().unwrap()[0].name.clone());
    desired.values().flat_map(BTreeMap::values).map(|endpoint| name(endpoint).unwrap_or(".".to_owned())).collect()
}

fn service(annotation: Option<(&str, &str)>) -> Service {
    let mut service = Service { metadata: fixture::meta("web"), ..Service::default() };
    service.metadata.annotations = annotation.map(|pair| fixture::labels(&[pair]));
    service
}

const AUTO: Option<(&str, &str)> = Some(("service.kubernetes.io/topology-mode", "Auto"));

fn applied(nodes: &str, zones: &str) -> (String, Option<Outcome>) {
    let mut desired = endpoints(zones);
    let outcome = apply(&service(AUTO), "IPv4", &mut desired, &[] as &[Arc<EndpointSlice>], &shares_of(nodes));
    (hints(&desired), outcome)
}

#[test]
fn zones_get_endpoints_by_their_share_of_the_cpu() {
    for (nodes, zones, expected) in [
        // nodes, zones of the endpoints => zones that they serve
        ("a:1 b:1", "ab", "ab"),
        ("a:1 b:1", "aabb", "aabb"),
        ("a:1 b:1", "aaab", "baab"),
        ("a:1 b:1", "aaaa", "bbaa"),
        ("a:3 b:1", "aabb", "aaab"),
        ("a:2 a:4 b:2", "aabb", "aaab"),
        ("a:1 b:1 c:1", "aaaaaa", "bbccaa"),
        ("a:1 b:1", "aAabBb", "a.ab.b"),
        ("a:1 b:1", "abbbbb", "aaabbb"),
        ("a:5 b:4", "aaaabbb", "aaaabbb"),
        ("a:5 b:4", "aaabbbb", "aaaabbb"),
    ] {
        let (served, outcome) = applied(nodes, zones);
        assert_eq!(served, expected, "{nodes} with {zones}: {outcome:?}");
        assert_eq!(outcome, Some(Outcome::Enabled(format!("{ENABLED}, addressType: IPv4"))), "{nodes} with {zones}");
    }
}

#[test]
fn without_hints_an_event_says_why() {
    let overload = format!("{OVERLOAD} (3 endpoints, 2 zones)");
    for (nodes, zones, expected) in [
        ("a:1 a:1", "aab", NO_NODES),
        ("a:1 b:1 :1", "aab", NO_NODES),
        ("a:1 b:0", "aab", NO_NODES),
        ("a:1 b:1", "a", "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        ("a:1 b:1", "", "Insufficient number of endpoints (0 endpoints, 2 zones)"),
        ("a:1 b:1", "aAB", "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        ("a:1 b:1", "aab", &overload),
        ("a:1 b:1", "aab-", NO_ZONE),
    ] {
        let (served, outcome) = applied(nodes, zones);
        assert_eq!(outcome, Some(Outcome::Disabled(format!("{expected}, addressType: IPv4"))), "{nodes} with {zones}");
        assert!(served.chars().all(|zone| zone == '.'), "{served}");
    }
}

#[test]
fn only_ready_nodes_without_a_role_of_the_control_plane_count() {
    let mut control = node(":8");
    control.metadata.labels = Some(fixture::labels(&[(EXCLUDED[0], "")]));
    let mut silent = node(":8");
    silent.status.as_mut().unwrap().conditions = None;
    let workers = || vec![node("a:1"), node("b:3")];
    let all: Vec<Node> = workers().into_iter().chain([control.clone(), silent]).collect();
    assert_eq!(shares(all.iter()), Some(BTreeMap::from([("a".to_owned(), 0.25), ("b".to_owned(), 0.75)])));
    assert!(concerns_hints(&node("a:1"), &node("a:2")) && concerns_hints(&node("a:1"), &control));
    assert!(!concerns_hints(&node("a:1"), &node("a:1000m")));
}

#[test]
fn the_annotation_turns_hints_on_and_off() {
    for (annotation, expected) in [
        (None, false),
        (AUTO, true),
        (Some((ANNOTATIONS[0], "auto")), true),
        (Some((ANNOTATIONS[1], "Disabled")), false),
        (Some((ANNOTATIONS[1], "AUTO")), false),
    ] {
        assert_eq!(is_auto(&service(annotation)), expected, "{annotation:?}");
    }
    let (nodes, mut desired) = (shares_of("a:1 b:1"), endpoints("ab"));
    let none: &[Arc<EndpointSlice>] = &[];
    apply(&service(AUTO), "IPv4", &mut desired, none, &nodes);
    let endpoints_of_slice = desired.values().flat_map(BTreeMap::values).cloned().collect();
    let hinted = [Arc::new(EndpointSlice { endpoints: Some(endpoints_of_slice), ..EndpointSlice::default() })];
    let mut again = endpoints("ab");
    assert_eq!(apply(&service(AUTO), "IPv4", &mut again, &hinted, &nodes), None, "they were there before");
    assert_eq!(hints(&again), "ab");
    let off = apply(&service(None), "IPv4", &mut endpoints("ab"), &hinted, &nodes);
    assert_eq!(off, Some(Outcome::Disabled(format!("{DISABLED}, addressType: IPv4"))));
}
