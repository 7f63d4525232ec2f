//! `Records`: what has happened in a trial so far, with what the study knows of its nodes and pods.

use crate::sim::prepared::Prepared;
use experiments::record::{Event, NodeAdded, PodCreated, Record};
use experiments::workload::Deployment;
use simulator::trial::Audience;
use std::collections::BTreeMap;
use std::time::Duration;

pub struct Records {
    nodes: BTreeMap<String, NodeAdded>,
    pods: BTreeMap<String, PodCreated>,
    deployments: BTreeMap<String, Deployment>,
    pub records: Vec<Record>,
}

impl Records {
    pub fn new(prepared: &Prepared) -> Self {
        let in_groups = prepared.groups.iter().flat_map(|group| &group.machines);
        let machines = prepared.machines.iter().chain(in_groups).map(Event::from);
        let (mut nodes, mut pods) = (BTreeMap::new(), BTreeMap::new());
        for fact in machines.chain(prepared.arrivals.iter().map(Event::from)) {
            match fact {
                Event::NodeAdded(added) => {
                    nodes.insert(added.node.clone(), added);
                }
                Event::PodCreated(created) => {
                    pods.insert(created.pod.clone(), created);
                }
                _ => {}
            }
        }
        let named = |one: &Deployment| (one.name.clone(), one.clone());
        let deployments = prepared.deployments.iter().map(named).collect();
        Self { nodes, pods, deployments, records: Vec::new() }
    }

    /// Returns the pods of the study by name.
    pub fn pods(&self) -> &BTreeMap<String, PodCreated> {
        &self.pods
    }

    /// Adds what the study knows of a node or pod. A pod that no user of the workload has created is none of the study.
    fn complete(&self, event: Event) -> Option<Event> {
        Some(match event {
            Event::NodeAdded(NodeAdded { node, .. }) => Event::NodeAdded(self.nodes.get(&node)?.clone()),
            Event::PodCreated(PodCreated { pod, deployment: Some(name), .. }) => {
                Event::PodCreated(PodCreated::of_deployment(pod, self.deployments.get(&name)?))
            }
            Event::PodCreated(PodCreated { pod, .. }) => Event::PodCreated(self.pods.get(&pod)?.clone()),
            event => event,
        })
    }
}

impl Audience for Records {
    fn happened(&mut self, at: Duration, event: Event) {
        self.records.extend(self.complete(event).map(|event| Record::new(at, event)));
    }
}
