//! Plans what is written about one node: its identity once, and its addresses and labels whenever they differ.
//!
//! Corresponds to syncNode and UpdateNodeStatus in k8s.io/cloud-provider/controllers/node/node_controller.go.

use super::addresses;
use crate::cloud_nodes::{UNINITIALIZED, has_taint, provider_id, without_taint};
use client::{Action, Patch, Plan};
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, NodeAddress};
use proto::meta::node_labels;
use serde_json::{Value, json};
use simulated_cloud::model::Machine;
use std::sync::Arc;

const INSTANCE_TYPE: [&str; 2] = [node_labels::INSTANCE_TYPE, node_labels::BETA_INSTANCE_TYPE];
const ZONE: [&str; 2] = [node_labels::ZONE, node_labels::BETA_ZONE];
const REGION: [&str; 2] = [node_labels::REGION, node_labels::BETA_REGION];

#[derive(Debug)]
pub struct Observed {
    pub node: Arc<Node>,
    pub machine: Machine,
    /// The addresses that the node should have.
    pub addresses: Vec<NodeAddress>,
}

pub fn is_uninitialized(node: &Node) -> bool {
    !node.is_deleting() && has_taint(node, UNINITIALIZED)
}

pub fn plan(observed: &Observed) -> Plan {
    let Observed { node, machine, addresses } = observed;
    let mut plan = Plan::default();
    if is_uninitialized(node) {
        plan.push(Action::update(&initialized(node, machine)));
    } else {
        plan.actions.extend(repeat_labels(node));
    }
    if addresses::present(node) != addresses.as_slice() {
        plan.push(set_addresses(node, addresses));
    }
    if is_uninitialized(node) {
        plan.push(actions::normal(&**node, "Synced", "Node synced successfully"));
    }
    plan
}

fn set_addresses(node: &Node, addresses: &[NodeAddress]) -> Action {
    let listed = addresses.iter().map(|address| json!({"type": address.type_, "address": address.address}));
    let listed: Vec<Value> = [json!({"$patch": "replace"})].into_iter().chain(listed).collect();
    let patch = json!({"metadata": {"uid": node.uid()}, "status": {"addresses": listed}});
    Action::patch_status::<Node>("", node.name(), Patch::Strategic(patch))
}

/// Returns the node with the name of its machine and its labels, and without the taint, so that it admits pods.
fn initialized(node: &Node, machine: &Machine) -> Node {
    let mut node = without_taint(node, UNINITIALIZED);
    if provider_id(&node).is_empty() {
        node.spec.get_or_insert_default().provider_id = Some(machine.provider_id());
    }
    let labels = node.metadata.labels.get_or_insert_default();
    for (keys, value) in [(INSTANCE_TYPE, &machine.instance_type), (ZONE, &machine.zone), (REGION, &machine.region)] {
        if !value.is_empty() {
            labels.extend(keys.map(|key| (key.to_owned(), value.clone())));
        }
    }
    node
}

/// Gives each older label the value of the newer one that replaced it.
fn repeat_labels(node: &Node) -> Option<Action> {
    let labels = node.metadata().labels.as_ref()?;
    let differing = [INSTANCE_TYPE, ZONE, REGION].into_iter().filter_map(|[newer, older]| {
        let value = labels.get(newer)?;
        (labels.get(older) != Some(value)).then(|| (older.to_owned(), json!(value)))
    });
    let changes: serde_json::Map<String, Value> = differing.collect();
    let patch = json!({"metadata": {"uid": node.uid(), "labels": changes}});
    (!changes.is_empty()).then(|| Action::patch::<Node>("", node.name(), Patch::Merge(patch)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use controller_base::fixture;
    use expect_test::expect;
    use proto::kinds::api::core::v1::{NodeSpec, Taint};
    use simulated_cloud::model::{Origin, Power};

    fn machine() -> Machine {
        crate::fixture::machine(Origin::Start, Power::Running)
    }

    fn node(taints: &[&str], addresses: &[(&str, &str)]) -> Node {
        let taint = |key: &&str| Taint { key: (*key).into(), effect: "NoSchedule".into(), ..Taint::default() };
        let mut node = fixture::node("node-1");
        let taints: Vec<Taint> = taints.iter().map(taint).collect();
        node.spec = Some(NodeSpec { taints: (!taints.is_empty()).then_some(taints), ..NodeSpec::default() });
        let address =
            |(type_, address): &(&str, &str)| NodeAddress { type_: (*type_).into(), address: (*address).into() };
        node.status.get_or_insert_default().addresses = Some(addresses.iter().map(address).collect());
        node
    }

    fn planned(node: Node) -> Plan {
        let addresses = addresses::wanted(&node, &machine()).unwrap();
        plan(&Observed { node: Arc::new(node), machine: machine(), addresses })
    }

    const KUBELETS: [(&str, &str); 2] = [("InternalIP", "172.18.0.9"), ("Hostname", "node-1")];
    const CLOUDS: [(&str, &str); 3] =
        [("InternalIP", "172.18.0.3"), ("ExternalIP", "198.18.0.3"), ("Hostname", "node-1")];

    #[test]
    fn a_new_node_is_named_labelled_addressed_and_let_in() {
        let plan = planned(node(&[UNINITIALIZED, "a"], &KUBELETS));
        expect![[r#"
            update nodes node-1
            strategic patch nodes/status node-1 {"metadata":{"uid":"uid-node-1"},"status":{"addresses":[{"$patch":"replace"},{"address":"172.18.0.3","type":"InternalIP"},{"address":"198.18.0.3","type":"ExternalIP"},{"address":"node-1","type":"Hostname"}]}}
            event Normal Synced Node node-1: Node synced successfully
        "#]]
        .assert_eq(&plan.to_string());
        let Action::Update { object, .. } = &plan.actions[0] else { panic!("{plan}") };
        assert_eq!(
            object["spec"],
            json!({"providerID": "orrery://node-1", "taints": [{"key": "a", "effect": "NoSchedule"}]})
        );
        let labels = json!({
            "node.kubernetes.io/instance-type": "small", "beta.kubernetes.io/instance-type": "small",
            "topology.kubernetes.io/zone": "orrery-b", "failure-domain.beta.kubernetes.io/zone": "orrery-b",
            "topology.kubernetes.io/region": "orrery", "failure-domain.beta.kubernetes.io/region": "orrery",
        });
        assert_eq!(object["metadata"]["labels"], labels);
    }

    #[test]
    fn a_known_node_is_written_only_where_it_differs() {
        assert_eq!(planned(node(&[], &CLOUDS)), Plan::default());
        let mut labelled = node(&[], &CLOUDS);
        labelled.metadata.labels = Some(fixture::labels(&[(ZONE[0], "moved"), (ZONE[1], "orrery-b")]));
        expect![[r#"
            merge patch nodes node-1 {"metadata":{"labels":{"failure-domain.beta.kubernetes.io/zone":"moved"},"uid":"uid-node-1"}}
        "#]]
        .assert_eq(&planned(labelled).to_string());
        assert_eq!(planned(node(&[], &KUBELETS)).actions.len(), 1);
    }

    #[test]
    fn an_address_that_the_kubelet_was_given_comes_first_or_is_missed() {
        let mut given = node(&[], &KUBELETS);
        fixture::annotate(&mut given, &[("alpha.kubernetes.io/provided-node-ip", "198.18.0.3")]);
        let wanted = addresses::wanted(&given, &machine()).unwrap();
        assert_eq!(
            wanted.iter().map(|address| address.type_.as_str()).collect::<Vec<_>>(),
            ["ExternalIP", "InternalIP", "Hostname"]
        );
        fixture::annotate(&mut given, &[("alpha.kubernetes.io/provided-node-ip", "10.0.0.1")]);
        let missed = addresses::wanted(&given, &machine()).unwrap_err();
        assert_eq!(missed, "failed to get node address from cloud provider that matches ip: 10.0.0.1");
    }
}
