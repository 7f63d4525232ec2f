//! Checks the placements of a benchmark by the reference evaluator: reads nodes and pods back from the API server, and puts
//! the pods on their nodes again, one after the other.

use super::Error;
use client::{Client, ListOptions};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, Pod};
use scheduler_reference::{Cluster, Settings};
use std::sync::Arc;

/// Returns the number of pods that the default profile does not allow where they are.
pub async fn wrong(client: &Client) -> Result<u64, Error> {
    let nodes = client.api::<Node>("").list(&ListOptions::default()).await?.items;
    let pods = client.api::<Pod>("").list(&ListOptions::default()).await?.items;
    let wrong = replay(nodes, pods);
    for (name, why) in wrong.iter().take(3) {
        eprintln!("bench: {name} should not be there: {why}");
    }
    Ok(wrong.len() as u64)
}

fn revision(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_ref().and_then(|version| version.parse().ok()).unwrap_or_default()
}

/// Puts pods on their nodes in the order of their bindings. Returns those that do not fit, and why.
///
/// Nobody runs the pods, so the binding is the last write of each. Bindings are written at the same time, and one may be
/// written before that of a pod that was decided earlier. A pod that does not fit is therefore tried again after each
/// other one.
fn replay(nodes: Vec<Node>, pods: Vec<Pod>) -> Vec<(String, String)> {
    let (mut cluster, settings) = (Cluster::default(), Settings::default());
    nodes.into_iter().for_each(|node| cluster.set_node(Arc::new(node)));
    let node_of = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
    let mut bound: Vec<Arc<Pod>> = pods.into_iter().filter(|pod| !node_of(pod).is_empty()).map(Arc::new).collect();
    bound.sort_by_key(|pod| revision(pod));
    let mut waiting: Vec<(Arc<Pod>, String)> = Vec::new();
    let place = |cluster: &mut Cluster, pod: &Arc<Pod>| {
        let node = node_of(pod);
        match cluster.rejection(pod, &settings, &node) {
            None => {
                cluster.place(pod.clone(), &node);
                Ok(())
            }
            Some(why) => Err(why.to_string()),
        }
    };
    for pod in bound {
        match place(&mut cluster, &pod) {
            Ok(()) => waiting.retain_mut(|(pod, why)| match place(&mut cluster, pod) {
                Ok(()) => false,
                Err(new) => {
                    *why = new;
                    true
                }
            }),
            Err(why) => waiting.push((pod, why)),
        }
    }
    waiting.into_iter().map(|(pod, why)| (pod.key(), why)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn nodes() -> Vec<Node> {
        let node = |name: &str| {
            let labels = json!({"kubernetes.io/hostname": name});
            json!({"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}})
        };
        ["n1", "n2"].map(|name| Node::decode_value(node(name)).unwrap()).into()
    }

    fn pod(name: &str, version: u64, node: &str, affinity: Value) -> Pod {
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "1"}}});
        let metadata = json!({"namespace": "x", "name": name, "uid": name, "resourceVersion": version.to_string(),
            "labels": {"app": name}});
        let spec = json!({"nodeName": node, "containers": [container], "affinity": affinity});
        Pod::decode_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn near(app: &str) -> Value {
        let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}});
        json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
    }

    #[test]
    fn a_pod_that_does_not_fit_is_named() {
        let pods = vec![
            pod("c", 7, "n1", json!({})),
            pod("a", 5, "n1", json!({})),
            pod("b", 6, "n1", json!({})),
            pod("pending", 8, "", json!({})),
        ];
        let wrong = replay(nodes(), pods);
        assert_eq!(wrong, [("x/c".to_owned(), "Insufficient cpu (NodeResourcesFit)".to_owned())]);
    }

    #[test]
    fn bindings_may_be_written_in_another_order() {
        let late = |node: &str| replay(nodes(), vec![pod("a", 5, node, near("b")), pod("b", 6, "n2", json!({}))]);
        assert_eq!(late("n2"), []);
        let wrong = ("x/a".to_owned(), "node(s) didn't match pod affinity rules (InterPodAffinity)".to_owned());
        assert_eq!(late("n1"), [wrong]);
    }
}
