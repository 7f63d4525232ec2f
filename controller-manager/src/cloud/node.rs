//! The cloud node controller sets a new node's provider ID and then removes its taint `uninitialized`.
//!
//! Corresponds to k8s.io/cloud-provider/controllers/node.

use super::options::PROVIDER;
use client::reconcile::Reconciler;
use client::{Action, Event, Lister, Plan};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Taint};
use std::sync::Arc;

const TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
const WORKERS: usize = 1;

struct Controller {
    nodes: Lister<Node>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<Node>, queue| {
        if !matches!(event, Event::Deleted(_)) && is_uninitialized(event.object()) {
            queue.add(event.object().key());
        }
    });
    setup.run(queue, WORKERS, Controller { nodes: setup.lister() })
}

fn taints(node: &Node) -> &[Taint] {
    node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default()
}

fn is_uninitialized(node: &Node) -> bool {
    !node.is_deleting() && taints(node).iter().any(|taint| taint.key == TAINT)
}

/// Sets the provider ID and removes the taint, so that the node admits pods.
pub fn plan(node: &Node) -> Plan {
    if !is_uninitialized(node) {
        return Plan::default();
    }
    let mut known = node.clone();
    let spec = known.spec.get_or_insert_default();
    if spec.provider_id.as_deref().unwrap_or_default().is_empty() {
        spec.provider_id = Some(format!("{PROVIDER}://{}", node.name()));
    }
    let taints: Vec<Taint> = taints(node).iter().filter(|taint| taint.key != TAINT).cloned().collect();
    spec.taints = (!taints.is_empty()).then_some(taints);
    Plan::of([Action::update(&known), actions::normal(node, "Synced", "Node synced successfully")])
}

impl Reconciler for Controller {
    type Observed = Arc<Node>;

    fn observe(&self, key: &str) -> Option<Arc<Node>> {
        self.nodes.by_key(key)
    }

    fn plan(&self, node: &Arc<Node>, _now: Timestamp) -> Plan {
        plan(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::NodeSpec;

    fn node(taints: &[&str], provider_id: &str) -> Node {
        let taint = |key: &&str| Taint { key: (*key).to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
        let spec = NodeSpec {
            taints: Some(taints.iter().map(taint).collect()),
            provider_id: (!provider_id.is_empty()).then(|| provider_id.to_owned()),
            ..NodeSpec::default()
        };
        Node { metadata: fixture::meta("n1"), spec: Some(spec), ..Node::default() }
    }

    #[test]
    fn a_new_node_is_named_and_let_in() {
        for (taints, provider_id, expected) in [
            (&["a"][..], "", None),
            (&[TAINT], "", Some((vec![], "orrery://n1"))),
            (&[TAINT, "a"], "other://7", Some((vec!["a"], "other://7"))),
        ] {
            let plan = plan(&node(taints, provider_id));
            let Some((left, named)) = expected else {
                assert_eq!(plan, Plan::default());
                continue;
            };
            let Some(Action::Update { object, .. }) = plan.actions.first() else { panic!("{plan}") };
            let keys: Vec<&str> =
                object["spec"]["taints"].as_array().into_iter().flatten().filter_map(|t| t["key"].as_str()).collect();
            assert_eq!((keys, object["spec"]["providerID"].as_str()), (left, Some(named)));
        }
    }
}
