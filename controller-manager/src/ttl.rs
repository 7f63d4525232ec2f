//! The TTL controller tells kubelets, by an annotation of their nodes, how long they may cache Secrets and ConfigMaps.
//!
//! Corresponds to pkg/controller/ttl.

use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Patch, Plan};
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use serde_json::json;
use std::sync::Arc;

const ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";
const WORKERS: usize = 5;

/// A range of cluster sizes, and the seconds for which an object may be cached there.
struct Range {
    min: usize,
    max: usize,
    ttl_s: u32,
}

/// The ranges overlap, so that a cluster whose size swings about a boundary keeps its value.
const RANGES: &[Range] = &[
    Range { min: 0, max: 100, ttl_s: 0 },
    Range { min: 90, max: 500, ttl_s: 15 },
    Range { min: 450, max: 1000, ttl_s: 30 },
    Range { min: 900, max: 2000, ttl_s: 60 },
    Range { min: 1800, max: usize::MAX, ttl_s: 300 },
];

/// The range of the cluster's present size, as an index into [`RANGES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Step(usize);

impl Step {
    /// Leaves the range only when the number of nodes is outside it.
    fn follow(mut self, nodes: usize) -> Self {
        while nodes > RANGES[self.0].max {
            self.0 += 1;
        }
        while nodes < RANGES[self.0].min {
            self.0 -= 1;
        }
        self
    }

    fn ttl_s(self) -> u32 {
        RANGES[self.0].ttl_s
    }
}

struct Controller {
    nodes: Lister<Node>,
    step: Arc<Mutex<Step>>,
}

struct Observed {
    node: Arc<Node>,
    ttl_s: u32,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    let (nodes, step): (Lister<Node>, Arc<Mutex<Step>>) = (setup.lister(), Arc::default());
    setup.on_event(&queue, {
        let (nodes, step) = (nodes.clone(), step.clone());
        move |event: &Event<Node>, queue| {
            let mut step = step.lock();
            let next = step.follow(nodes.len());
            if std::mem::replace(&mut *step, next) != next {
                nodes.list().iter().for_each(|node| queue.add(node.key()));
            } else if !matches!(event, Event::Deleted(_)) {
                queue.add(event.object().key());
            }
        }
    });
    setup.run(queue, WORKERS, Controller { nodes, step })
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let ttl_s = self.step.lock().ttl_s();
        self.nodes.by_key(key).map(|node| Observed { node, ttl_s })
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        plan(&observed.node, observed.ttl_s)
    }
}

fn plan(node: &Node, ttl_s: u32) -> Plan {
    let present = node.metadata.annotations.as_ref().and_then(|all| all.get(ANNOTATION));
    if present.and_then(|text| text.parse().ok()) == Some(ttl_s) {
        return Plan::default();
    }
    let patch = json!({"metadata": {"annotations": {ANNOTATION: ttl_s.to_string()}}});
    Plan::of([Action::patch::<Node>("", node.name(), Patch::Strategic(patch))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;

    #[test]
    fn the_value_grows_and_shrinks_with_the_cluster() {
        let mut step = Step::default();
        let sizes = [
            (1, 0),
            (100, 0),
            (101, 15),
            (100, 15),
            (90, 15),
            (89, 0),
            (500, 15),
            (501, 30),
            (450, 30),
            (449, 15),
            (5000, 300),
            (1800, 300),
            (1799, 60),
            (0, 0),
        ];
        for (nodes, ttl_s) in sizes {
            step = step.follow(nodes);
            assert_eq!(step.ttl_s(), ttl_s, "{nodes} nodes");
        }
    }

    #[test]
    fn a_node_is_annotated_once() {
        let mut node = fixture::node("n");
        let written =
            "strategic patch nodes n {\"metadata\":{\"annotations\":{\"node.alpha.kubernetes.io/ttl\":\"15\"}}}\n";
        assert_eq!(plan(&node, 15).to_string(), written);
        for (present, expected) in [("0", written), ("soon", written), ("15", "")] {
            fixture::annotate(&mut node, &[(ANNOTATION, present)]);
            assert_eq!(plan(&node, 15).to_string(), expected, "{present}");
        }
    }
}
