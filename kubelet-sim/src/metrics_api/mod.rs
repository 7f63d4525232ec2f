//! The usage of the fleet's nodes and pods, for the group `metrics.k8s.io`.
//!
//! A process that simulates all nodes serves the group itself. Where each node has a process of its own, a metrics-server asks them.

use crate::agent::metrics::{NodeUsage, PodUsage};
use crate::fleet::Fleet;
use metrics_server::answers::{Item, Scope, Selection, Usage};
use metrics_server::routes::Source;
use pod_life::story::usage::ContainerUsage;
use proto::Kind;
use proto::kinds::jiff::Timestamp;

impl Source for Fleet {
    fn items(&self, scope: &Scope, selection: &Selection) -> Vec<Item> {
        match scope {
            Scope::Nodes => self.node_names().iter().filter_map(|name| node(self, name, selection)).collect(),
            Scope::Pods { namespace } => {
                let is_wanted = |usage: &PodUsage| {
                    let pod = &usage.pod;
                    let is_there = namespace.as_deref().is_none_or(|namespace| namespace == pod.namespace());
                    is_there && selection.selects(pod.namespace(), pod.name(), pod.metadata.labels.as_ref())
                };
                let nodes = self.node_names();
                let usages = nodes.iter().filter_map(|node| NodeUsage::of(self, node));
                let pods = usages.flat_map(|usage| usage.pods.into_iter().map(move |pod| (usage.now, pod)));
                pods.filter(|(_, usage)| is_wanted(usage)).map(|(now, usage)| pod(&usage, now)).collect()
            }
        }
    }
}

fn node(fleet: &Fleet, name: &str, selection: &Selection) -> Option<Item> {
    let node = fleet.node(name)?;
    let labels = node.metadata.labels.clone();
    if !selection.selects("", name, labels.as_ref()) {
        return None;
    }
    let usage = NodeUsage::of(fleet, name)?;
    let whole = Usage { name: String::new(), cpu_cores: usage.cpu_cores(), memory_bytes: usage.memory_bytes() };
    Some(Item { namespace: String::new(), name: name.to_owned(), labels, now: usage.now, usages: vec![whole] })
}

fn pod(usage: &PodUsage, now: Timestamp) -> Item {
    let of_container = |container: &ContainerUsage| Usage {
        name: container.name.clone(),
        cpu_cores: container.cpu_cores,
        memory_bytes: container.memory_bytes,
    };
    Item {
        namespace: usage.pod.namespace().to_owned(),
        name: usage.pod.name().to_owned(),
        labels: usage.pod.metadata.labels.clone(),
        now,
        usages: usage.containers.iter().map(of_container).collect(),
    }
}

#[cfg(test)]
mod tests;
