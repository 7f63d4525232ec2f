//! Gathers the usage of the fleet's nodes and pods.

use super::answers::{Item, Scope, Selection, Usage};
use crate::agent::metrics::{NodeUsage, PodUsage};
use crate::fleet::Fleet;
use pod_life::story::usage::ContainerUsage;
use proto::Kind;
use proto::kinds::jiff::Timestamp;

/// Returns what is selected, sorted by namespace and name. Pods without a running container are left out.
pub fn items(fleet: &Fleet, scope: &Scope, selection: &Selection) -> Vec<Item> {
    let mut items: Vec<Item> = match scope {
        Scope::Nodes => fleet.node_names().iter().filter_map(|name| node(fleet, name, selection)).collect(),
        Scope::Pods { namespace } => {
            let is_wanted = |usage: &PodUsage| {
                let pod = &usage.pod;
                let is_there = namespace.as_deref().is_none_or(|namespace| namespace == pod.namespace());
                is_there && selection.selects(pod.namespace(), pod.name(), pod.metadata.labels.as_ref())
            };
            let nodes = fleet.node_names();
            let usages = nodes.iter().filter_map(|node| NodeUsage::of(fleet, node));
            let pods = usages.flat_map(|usage| usage.pods.into_iter().map(move |pod| (usage.now, pod)));
            pods.filter(|(_, usage)| is_wanted(usage)).map(|(now, usage)| pod(&usage, now)).collect()
        }
    };
    items.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    items
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
