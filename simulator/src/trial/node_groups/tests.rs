//! A run of scans worked by hand, and the price of a whole run.

use super::*;
use crate::trial::tests::submission;
use crate::trial::{Audience, Depth, Event, run};
use experiments::metrics::summarise;
use experiments::record::{NodeAdded, Record};
use proto::Kind;
use serde_json::json;

const S: Duration = Duration::from_secs(1);

fn template(name: &str, cpu: u32, labels: Value) -> Value {
    json!({"name": name, "nodeName": name, "capacity": {"cpu": cpu, "memory": "8Gi", "pods": 10}, "labels": labels})
}

/// A fixed node of 1 core, small nodes of 2 cores for 1 an hour, and large ones of 8 for 3.
fn known() -> NodeGroups {
    let group = |name: &str, cpu: u32, min: usize, price_per_hour: f64| NodeGroup {
        nodes: (0..2).map(|number| template(&format!("{name}-{number}"), cpu, json!({"size": name}))).collect(),
        min,
        price_per_hour,
        provision_delay: 60 * S,
        scale_down_after: 300 * S,
    };
    let fixed = NodeTemplate::read(&template("fixed", 1, json!({}))).unwrap();
    let groups = vec![group("large", 8, 0, 3.0), group("small", 2, 1, 1.0)];
    let mut setup = Setup { templates: vec![fixed], groups, ..Setup::default() };
    setup.add_first_of_groups().unwrap();
    NodeGroups::new(&setup).unwrap()
}

fn create(groups: &mut NodeGroups, name: &str, cpu: &str, selector: Value, at: Duration) {
    let containers = json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
    let pod = json!({"metadata": {"name": name}, "spec": {"containers": containers, "nodeSelector": selector}});
    groups.remember(&Pod::decode_value(pod).unwrap());
    see(groups, name, None, at);
}

/// Shows a pod on a node, or one that waits.
fn see(groups: &mut NodeGroups, name: &str, node: Option<&str>, at: Duration) {
    let unscheduled = node.is_none().then(|| "no room".to_owned());
    let state = PodState { node: node.map(str::to_owned), unscheduled, ..PodState::default() };
    groups.see_pod(&format!("default/{name}"), Some(&state), at);
}

fn names(orders: &Orders) -> (Vec<&str>, Vec<&str>) {
    let join = orders.join.iter().filter_map(|document| document["name"].as_str());
    (join.collect(), orders.leave.iter().map(String::as_str).collect())
}

#[test]
fn pods_order_the_cheapest_nodes_and_idle_ones_leave() {
    let mut groups = known();
    assert_eq!(groups.next_at(), None, "the one small node stays");
    create(&mut groups, "a", "1500m", json!({}), 3 * S);
    create(&mut groups, "b", "2", json!({}), 4 * S);
    create(&mut groups, "c", "2", json!({}), 4 * S);
    create(&mut groups, "d", "1", json!({"size": "large"}), 4 * S);
    create(&mut groups, "giant", "64", json!({}), 4 * S);
    // a fits on small-0. b gets small-1, c the first large node, because there is no third small one, and d fits beside c.
    assert_eq!(groups.next_at(), Some(10 * S));
    assert_eq!(names(&groups.act(10 * S)), (vec![], vec![]));
    assert!(groups.is_waiting());
    assert_eq!(names(&groups.act(20 * S)), (vec![], vec![]), "what is ordered is not ordered again");
    assert_eq!(names(&groups.act(70 * S)), (vec!["large-0", "small-1"], vec![]));
    groups.see_node("large-0", true, 71 * S);
    groups.see_node("small-1", true, 71 * S);
    assert!(!groups.is_waiting());
    for (pod, node) in [("a", "small-0"), ("b", "small-1"), ("c", "large-0"), ("d", "large-0")] {
        see(&mut groups, pod, Some(node), 72 * S);
    }
    groups.see_pod("default/giant", None, 73 * S);
    assert_eq!(groups.next_at(), None);
    // The large node is idle from 103 on. Of the small ones, the first that is idle leaves, and the other stays.
    groups.see_pod("default/c", None, 100 * S);
    groups.see_pod("default/d", None, 103 * S);
    groups.see_pod("default/a", None, 110 * S);
    groups.see_pod("default/b", None, 120 * S);
    assert_eq!(groups.next_at(), Some(410 * S));
    assert_eq!(names(&groups.act(410 * S)), (vec![], vec!["large-0", "small-0"]));
    groups.see_node("large-0", false, 411 * S);
    groups.see_node("small-0", false, 411 * S);
    assert_eq!(groups.next_at(), None);
    // A node that has left can come again.
    create(&mut groups, "e", "3", json!({}), 500 * S);
    assert_eq!(groups.next_at(), Some(510 * S));
    groups.act(510 * S);
    assert_eq!(names(&groups.act(570 * S)), (vec!["large-0"], vec![]));
}

#[test]
fn a_node_that_a_pod_is_about_to_use_stays() {
    let mut groups = known();
    groups.see_node("small-1", true, Duration::ZERO);
    create(&mut groups, "b", "6", json!({}), 5 * S);
    groups.act(10 * S);
    groups.act(70 * S);
    groups.see_node("large-0", true, 71 * S);
    // The pod still waits, for example in the scheduler's backoff, and holds the node.
    for scan in [80, 200, 380, 400] {
        assert_eq!(names(&groups.act(scan * S)), (vec![], vec![]), "{scan}");
    }
}

/// Receives records as a study writes them. A node of a group has the price of its group.
#[derive(Default)]
struct Priced(Vec<Record>);

impl Audience for Priced {
    fn happened(&mut self, at: Duration, event: Event) {
        let event = match event {
            Event::NodeAdded(NodeAdded { node, .. }) => {
                let prices = [("large", 3.6), ("small", 0.36), ("fixed", 0.0)];
                let (_, price_per_hour) = prices.into_iter().find(|(name, _)| node.starts_with(name)).unwrap();
                Event::NodeAdded(NodeAdded { node, price_per_hour, ..NodeAdded::default() })
            }
            event => event,
        };
        self.0.push(Record::new(at, event));
    }
}

/// Small nodes of 2 cores cost 0.36 an hour, a ten-thousandth a second, and large ones of 4 cores 3.6, a thousandth. Each comes 30 s after
/// its order, and leaves at the first scan once it was idle for 60 s. A pod starts half a second after it was bound. The fixed node has too
/// little room and costs nothing.
///
/// | pod | arrives | cores | runs | on | its node is ordered | there | idle | gone | costs |
/// |---|---|---|---|---|---|---|---|---|---|
/// | a | 0 | 2 | 100 | small | 10 | 40 | 140.5 | 210 | 170 · 0.0001 = 0.017 |
/// | b | 0 | 3 | 200 | large | 10 | 40 | 240.5 | 310 | 270 · 0.001 = 0.27 |
/// | c | 5 | 2 | 100 | large, because b leaves 1 core | 10 | 40 | 140.5 | 210 | 170 · 0.001 = 0.17 |
/// | d | 400 | 2 | 50 | large | 410 | 440 | 490.5 | | 50.5 · 0.001 = 0.0505 until the run ends |
///
/// Sum: 0.5075.
#[test]
fn the_price_of_a_run_is_that_worked_by_hand() {
    let group = |name: &str, cpu: u32, price_per_hour: f64| NodeGroup {
        nodes: (0..2).map(|number| template(&format!("{name}-{number}"), cpu, json!({"size": name}))).collect(),
        min: 0,
        price_per_hour,
        provision_delay: 30 * S,
        scale_down_after: 60 * S,
    };
    let pod = |name: &str, at: u32, cpu: &str, runs_s: u32, size: &str| {
        let mut one = submission(name, 0, cpu, 0);
        one.at = at * S;
        one.pod["metadata"]["annotations"]["orrery.dev/run-for"] = json!(format!("{runs_s}s"));
        one.pod["spec"]["nodeSelector"] = json!({"size": size});
        one
    };
    for depth in [Depth::Scheduler, Depth::Full] {
        let groups = vec![group("large", 4, 3.6), group("small", 2, 0.36)];
        let templates = vec![NodeTemplate::read(&template("fixed", 1, json!({}))).unwrap()];
        let setup = Setup { depth, templates, groups, ..Setup::default() };
        let pods = vec![
            pod("a", 0, "2", 100, "small"),
            pod("b", 0, "3", 200, "large"),
            pod("c", 5, "2", 100, "large"),
            pod("d", 400, "2", 50, "large"),
        ];
        let mut priced = Priced::default();
        run(setup, pods, &mut priced).unwrap();
        let price = summarise(&priced.0, 60 * S).values["price"];
        // Nodes are ready and gone some hundredths of a second later.
        assert!((price - 0.5075).abs() < 0.0002, "{depth:?}: {price} {:#?}", priced.0);
    }
}
