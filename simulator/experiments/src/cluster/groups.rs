//! Nodes from the groups of a study.

use crate::amounts::{Amounts, PODS, amount};
use crate::cluster::Machine;
use crate::study::{Amount, AutoscaledGroup, NodeGroup};
use std::collections::BTreeMap;
use std::time::Duration;

/// Pods of a node that does not say how many it takes, as of a kubelet.
pub const DEFAULT_PODS: i64 = 110;

/// Time without a pod after which a node leaves, as `--scale-down-unneeded-time` of the Cluster Autoscaler.
const SCALE_DOWN_AFTER: Duration = Duration::from_secs(600);

/// Alike nodes that an autoscaler orders and gives back.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineGroup {
    /// As many as there may be; the first `min` are there from the start.
    pub machines: Vec<Machine>,
    pub min: usize,
    pub price_per_hour: f64,
    pub provision_delay: Duration,
    pub scale_down_after: Duration,
}

impl MachineGroup {
    pub fn of(group: &AutoscaledGroup) -> Self {
        let span = |span: &Option<crate::study::Span>| span.as_ref().map(|span| span.duration);
        Self {
            machines: (0..group.max).map(|number| machine(&group.template, number)).collect(),
            min: group.min.unwrap_or_default() as usize,
            price_per_hour: group.template.price_per_hour.unwrap_or_default(),
            provision_delay: span(&group.provision_delay).unwrap_or_default(),
            scale_down_after: span(&group.scale_down_after).unwrap_or(SCALE_DOWN_AFTER),
        }
    }
}

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
