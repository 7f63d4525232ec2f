//! Nodes from `kubectl get nodes -o yaml`.

use crate::amounts::{Amounts, GPU, GPU_COUNT, GPU_MODEL, amount};
use crate::cluster::Machine;
use crate::files::Files;
use crate::listing;
use crate::problem::Problem;
use crate::study::{NodeFile, Taint};
use proto::kinds::api::core::v1::Node;
use proto::meta::node_labels::{HOSTNAME, INSTANCE_TYPE, ZONE};
use proto::meta::quantity::Quantity;
use std::collections::BTreeMap;

/// Labels that a simulated node sets itself.
const OWN_LABELS: [&str; 2] = [ZONE, HOSTNAME];
/// Taints of this domain follow from the state of a node, and its controller sets them again.
const STATE_TAINTS: &str = "node.kubernetes.io/";

pub fn machines(file: &NodeFile, files: &dyn Files, place: &str) -> Result<Vec<Machine>, Vec<Problem>> {
    let nodes: Vec<Node> = listing::read(&file.file, files, &format!("{place}.file"))?;
    let (mut machines, mut problems) = (Vec::new(), Vec::new());
    for (index, node) in nodes.into_iter().take(file.limit.unwrap_or(usize::MAX)).enumerate() {
        let status = node.status.unwrap_or_default();
        let place = |field: &str| format!("{}: items[{index}].status.{field}", file.file);
        let capacity = read(status.capacity, &place("capacity"), &mut problems);
        let allocatable = match status.allocatable {
            None => capacity.clone(),
            some => read(some, &place("allocatable"), &mut problems),
        };
        let mut labels = node.metadata.labels.unwrap_or_default();
        let zone = labels.get(ZONE).cloned();
        labels.retain(|key, _| !OWN_LABELS.contains(&key.as_str()));
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        let taints = taints.into_iter().filter(|taint| !taint.key.starts_with(STATE_TAINTS));
        let gpus = [GPU, GPU_COUNT].into_iter().find_map(|name| allocatable.get(name)).copied().unwrap_or_default();
        let model = labels.get(GPU_MODEL).or_else(|| labels.get("nvidia.com/gpu.product")).cloned().unwrap_or_default();
        let machine = Machine {
            name: node.metadata.name.unwrap_or_default(),
            group: labels.get(INSTANCE_TYPE).cloned().unwrap_or_else(|| "node".to_owned()),
            zone,
            capacity,
            allocatable,
            labels,
            taints: taints
                .map(|taint| Taint { key: taint.key, value: taint.value.unwrap_or_default(), effect: taint.effect })
                .collect(),
            price_per_hour: file.price_per_hour.unwrap_or_default(),
            power: file.power.unwrap_or_default(),
            ..Machine::default()
        };
        machines.push(machine.with_gpus(u32::try_from(gpus).unwrap_or_default(), &model));
    }
    if problems.is_empty() { Ok(machines) } else { Err(problems) }
}

fn read(
    list: Option<BTreeMap<String, proto::kinds::apimachinery::api::resource::Quantity>>,
    place: &str,
    problems: &mut Vec<Problem>,
) -> Amounts {
    let mut amounts = Amounts::new();
    for (resource, text) in list.unwrap_or_default() {
        match Quantity::parse(&text.0) {
            Ok(quantity) if quantity.signum() >= 0 => {
                amounts.insert(resource.clone(), amount(&resource, &quantity));
            }
            Ok(_) => problems.push(Problem::new(format!("{place}.{resource}"), "must not be negative")),
            Err(error) => problems.push(Problem::new(format!("{place}.{resource}"), error.to_string())),
        }
    }
    amounts
}
