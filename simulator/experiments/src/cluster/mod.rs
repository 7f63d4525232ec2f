//! The nodes of a cluster: from templates, from the list of a trace, or from a real cluster.

mod groups;
mod openb;
mod kubectl;
#[cfg(test)]
mod tests;

pub use groups::MachineGroup;

use crate::amounts::{self, Amounts, GPU, GPU_COUNT, GPU_MILLI, GPU_MODEL};
use crate::files::Files;
use crate::problem::Problem;
use crate::study::{Cluster, Power, Taint};
use proto::meta::names;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Most nodes of a cluster, as of `orrery up --nodes`.
pub const MAX_NODES: usize = 60_000;

/// One node of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    pub name: String,
    /// Group of the node, for tables and plots.
    pub group: String,
    pub zone: Option<String>,
    pub capacity: Amounts,
    pub allocatable: Amounts,
    pub labels: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub gpu_count: u32,
    pub gpu_model: String,
    pub price_per_hour: f64,
    pub power: Power,
}

/// Returns the groups of a cluster whose nodes come and go.
pub fn machine_groups(cluster: &Cluster) -> Vec<MachineGroup> {
    cluster.node_groups.iter().map(MachineGroup::of).collect()
}

/// Returns the nodes of a cluster that are always there, or every mistake in these and in those of groups. `place` is the cluster's path in the study.
pub fn machines(cluster: &Cluster, files: &dyn Files, place: &str) -> Result<Vec<Machine>, Vec<Problem>> {
    // Groups are counted before their nodes are made.
    let scaled: usize = cluster.node_groups.iter().map(|group| group.max as usize).sum();
    if scaled > MAX_NODES {
        return Err(vec![Problem::new(
            place,
            format!("has {scaled} nodes in groups; at most {MAX_NODES} are possible"),
        )]);
    }
    let machines = if let Some(file) = &cluster.openb_nodes {
        openb::machines(file, files, &format!("{place}.openbNodes"))?
    } else if let Some(file) = &cluster.kubectl_nodes {
        kubectl::machines(file, files, &format!("{place}.kubectlNodes"))?
    } else {
        groups::machines(&cluster.nodes)
    };
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let groups = machine_groups(cluster);
    for machine in machines.iter().chain(groups.iter().flat_map(|group| &group.machines)) {
        if !seen.insert(machine.name.as_str()) {
            problems.push(Problem::new(place, format!("two nodes are named {:?}", machine.name)));
        }
        for why in names::dns1123_subdomain(&machine.name) {
            problems.push(Problem::new(place, format!("node {:?}: {why}", machine.name)));
        }
    }
    if machines.is_empty() && groups.is_empty() {
        problems.push(Problem::new(place, "has no nodes"));
    }
    if machines.len() + scaled > MAX_NODES {
        let count = machines.len() + scaled;
        problems.push(Problem::new(place, format!("has {count} nodes; at most {MAX_NODES} are possible")));
    }
    if problems.is_empty() { Ok(machines) } else { Err(problems) }
}

impl Machine {
    /// Adds GPUs as resources and labels.
    fn with_gpus(mut self, count: u32, model: &str) -> Self {
        if count == 0 {
            return self;
        }
        self.gpu_count = count;
        self.gpu_model = model.to_owned();
        let resources = [(GPU, 1), (GPU_COUNT, 1), (GPU_MILLI, 1000)];
        for (resource, each) in resources {
            self.capacity.insert(resource.to_owned(), i64::from(count) * each);
            self.allocatable.insert(resource.to_owned(), i64::from(count) * each);
        }
        if !model.is_empty() {
            self.labels.insert(GPU_MODEL.to_owned(), model.to_owned());
        }
        self
    }

    /// Returns the node as a document of `--node-template`.
    pub fn template(&self) -> Value {
        let texts = |amounts: &Amounts| -> BTreeMap<String, String> {
            let text = |(name, amount): (&String, &i64)| (name.clone(), amounts::quantity_text(name, *amount));
            amounts.iter().map(text).collect()
        };
        let reserved: Amounts = ["cpu", "memory", "ephemeral-storage"]
            .into_iter()
            .filter_map(|name| {
                let kept = self.capacity.get(name)? - self.allocatable.get(name)?;
                (kept > 0).then(|| (name.to_owned(), kept))
            })
            .collect();
        // Nothing of an extended resource is reserved. A device that is broken counts for the capacity alone.
        let usable = |(name, amount): (&String, &i64)| match name.contains('/') {
            true => (name.clone(), self.allocatable.get(name).copied().unwrap_or(*amount)),
            false => (name.clone(), *amount),
        };
        let capacity: Amounts = self.capacity.iter().map(usable).collect();
        let mut template = json!({
            "name": self.name,
            "nodeName": self.name,
            "capacity": texts(&capacity),
            "reserved": texts(&reserved),
            "labels": self.labels,
            "taints": self.taints,
        });
        if let Some(zone) = &self.zone {
            template["zones"] = json!([zone]);
        }
        if self.price_per_hour > 0.0 {
            template["pricePerHour"] = json!(self.price_per_hour);
        }
        template
    }
}
