//! A fixed number of random histories, and those that were minimal once.

use crate::both::Both;
use crate::comparison;
use crate::draw::{HOSTNAME, ZONE};
use crate::history::Change;
use crate::world::World;
use serde_json::json;

#[test]
fn the_plugins_decide_as_the_reference_does() {
    let decisions: usize = (0..60).map(|seed| comparison::of_seed(seed).unwrap_or_else(|it| panic!("{it}"))).sum();
    assert!(decisions > 300, "{decisions}");
}

/// A node that lacks the topology key of one constraint counts for no other: its pods do not make its zone look fuller.
#[test]
fn a_node_without_a_host_name_does_not_count_for_its_zone() {
    let node = |zone: &str, has_host_name: bool| {
        let mut node = json!({
            "metadata": {"labels": {ZONE: zone}},
            "status": {"allocatable": {"cpu": "2", "memory": "2Gi", "pods": "9"}},
        });
        if has_host_name {
            node["metadata"]["labels"][HOSTNAME] = json!("self");
        }
        node
    };
    let spread = |key: &str| {
        json!({
            "labelSelector": {"matchLabels": {"app": "web"}}, "maxSkew": 1, "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
        })
    };
    let pod = json!({
        "metadata": {"namespace": "y", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}], "topologySpreadConstraints": [spread(HOSTNAME), spread(ZONE)]},
    });
    let mut both = Both::new(&World::default());
    for change in [
        Change::SetNode(0, node("a", true)),
        Change::SetNode(3, node("b", true)),
        Change::SetNode(4, node("a", false)),
        Change::Place { pod: 0, node: 4, value: pod.clone() },
        Change::Schedule(pod),
    ] {
        both.apply(&change).unwrap();
    }
}
