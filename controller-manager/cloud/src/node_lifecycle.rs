//! The cloud node lifecycle controller: deletes the Node of a machine that has gone, and taints that of one that is off.
//!
//! Corresponds to k8s.io/cloud-provider/controllers/nodelifecycle.

use crate::cloud_nodes::{SHUTDOWN, cloud_of, has_taint, is_ready, machine_name, without_taint};
use client::reconcile::PeriodicReconciler;
use client::{Action, Lister, Plan};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Taint};
use simulated_cloud::cloud_client::CloudClient;
use simulated_cloud::model::{Machine, Power};
use std::sync::Arc;

struct Controller {
    nodes: Lister<Node>,
    cloud: CloudClient,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let controller = Controller { nodes: setup.lister(), cloud: cloud_of(setup) };
    setup.run_periodically("cloud-node-lifecycle", setup.settings.node_monitor_period, controller)
}

#[derive(Debug)]
pub struct Observed {
    pub nodes: Vec<Arc<Node>>,
    /// `None` while the cloud does not answer: then nobody knows whether a machine is there.
    pub machines: Option<Vec<Machine>>,
}

pub fn plan(observed: &Observed) -> Vec<Plan> {
    let Some(machines) = &observed.machines else { return Vec::new() };
    observed.nodes.iter().filter(|node| !node.is_deleting()).filter_map(|node| plan_one(node, machines)).collect()
}

/// A node whose kubelet reports that it is ready runs, whatever the cloud says.
fn plan_one(node: &Node, machines: &[Machine]) -> Option<Plan> {
    let is_tainted = has_taint(node, SHUTDOWN);
    if is_ready(node) {
        return is_tainted.then(|| Plan::of([Action::update(&without_taint(node, SHUTDOWN))]));
    }
    let name = machine_name(node)?;
    match machines.iter().find(|machine| machine.name == name) {
        None => {
            let why = format!("Deleting node {} because it does not exist in the cloud provider", node.name());
            Some(Plan::of([actions::normal(node, "DeletingNode", why), actions::delete_exactly(node)]))
        }
        Some(machine) if machine.power == Power::Stopped && !is_tainted => {
            Some(Plan::of([Action::update(&tainted(node))]))
        }
        Some(_) => None,
    }
}

fn tainted(node: &Node) -> Node {
    let mut node = node.clone();
    let taint = Taint { key: SHUTDOWN.to_owned(), effect: "NoSchedule".to_owned(), ..Taint::default() };
    node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
    node
}

impl PeriodicReconciler for Controller {
    type Observed = Observed;

    async fn observe(&mut self, _now: Timestamp) -> Observed {
        let machines = self.cloud.machines().await;
        let machines = machines.inspect_err(|problem| tracing::warn!(%problem, "the cloud does not list its machines"));
        Observed { nodes: self.nodes.list(), machines: machines.ok() }
    }

    fn plan(&mut self, observed: &Observed, _now: Timestamp) -> Vec<Plan> {
        plan(observed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use proto::kinds::api::core::v1::NodeSpec;
    use simulated_cloud::model::Origin;

    fn machine(power: Power) -> Machine {
        Machine { name: "n1".into(), ..crate::fixture::machine(Origin::Start, power) }
    }

    fn node(ready: &str, is_tainted: bool, provider_id: &str) -> Node {
        let mut node = fixture::node("n1");
        let provider_id = (!provider_id.is_empty()).then(|| provider_id.to_owned());
        node.spec = Some(NodeSpec { provider_id, ..NodeSpec::default() });
        fixture::set_node_condition(&mut node, "Ready", ready, 0);
        if is_tainted { tainted(&node) } else { node }
    }

    #[test]
    fn a_node_follows_its_machine_once_its_kubelet_is_silent() {
        const DELETED: &str = "event Normal DeletingNode Node n1: Deleting node n1 because it does not exist in the cloud \
                               provider\ndelete nodes n1 uid=uid-n1\n";
        const UPDATED: &str = "update nodes n1\n";
        let (on, off) = (Some(Power::Running), Some(Power::Stopped));
        for (ready, is_tainted, provider_id, power, expected) in [
            ("True", false, "orrery://n1", None, ""),
            ("True", true, "orrery://n1", on, UPDATED),
            ("Unknown", false, "orrery://n1", on, ""),
            ("Unknown", false, "orrery://n1", None, DELETED),
            ("False", false, "", None, DELETED),
            ("Unknown", false, "kwok://n1", None, ""),
            ("False", false, "orrery://n1", off, UPDATED),
            ("False", true, "orrery://n1", off, ""),
            // Only a node that is ready loses the taint.
            ("Unknown", true, "orrery://n1", on, ""),
        ] {
            let nodes = vec![Arc::new(node(ready, is_tainted, provider_id))];
            let machines = Some(power.map(machine).into_iter().collect());
            let plans = plan(&Observed { nodes: nodes.clone(), machines });
            let text: String = plans.iter().map(ToString::to_string).collect();
            assert_eq!(text, expected, "{ready} {is_tainted} {provider_id} {power:?}");
            assert!(
                plan(&Observed { nodes, machines: None }).is_empty(),
                "a cloud that does not answer deletes nothing"
            );
        }
    }
}
