//! Nodes from the groups of a study.

use crate::amounts::{Amounts, PODS, amount};
use crate::cluster::Machine;
use crate::study::{Amount, NodeGroup};
use std::collections::BTreeMap;

/// Pods of a node that does not say how many it takes, as of a kubelet.
pub const DEFAULT_PODS: i64 = 110;

pub fn machines(groups: &[NodeGroup]) -> Vec<Machine> {
    groups.iter().flat_map(|group| (0..group.count.unwrap_or(1)).map(|number| machine(group, number))).collect()
}

fn machine(group: &NodeGroup, number: u32) -> Machine {
    let mut capacity = amounts(&group.capacity);
    capacity.entry(PODS.to_owned()).or_insert(DEFAULT_PODS);
    let mut allocatable = capacity.clone();
    for (resource, reserved) in amounts(&group.reserved) {
        *allocatable.entry(resource).or_default() -= reserved;
    }
    let zone = match group.zones.len() {
        0 => None,
        zones => group.zones.get(number as usize % zones).cloned(),
    };
    let machine = Machine {
        name: format!("{}-{number}", group.name),
        group: group.name.clone(),
        zone,
        capacity,
        allocatable,
        labels: group.labels.clone(),
        taints: group.taints.clone(),
        price_per_hour: group.price_per_hour.unwrap_or_default(),
        power: group.power.unwrap_or_default(),
        ..Machine::default()
    };
    match &group.gpus {
        Some(gpus) => machine.with_gpus(gpus.count, &gpus.model),
        None => machine,
    }
}

fn amounts(of: &BTreeMap<String, Amount>) -> Amounts {
    of.iter().map(|(resource, value)| (resource.clone(), amount(resource, &value.quantity))).collect()
}
