//! `Recorder`: turns the happenings of a trial into records.

use crate::sim::prepared::Prepared;
use experiments::record::{Event, PodCreated, Record};
use simulator::trial::Happening;
use std::collections::BTreeMap;
use std::time::Duration;

pub struct Recorder {
    nodes: BTreeMap<String, Event>,
    pods: BTreeMap<String, PodCreated>,
    pub records: Vec<Record>,
}

impl Recorder {
    pub fn new(prepared: &Prepared) -> Self {
        let created = prepared.arrivals.iter().map(Event::from).filter_map(|event| match event {
            Event::PodCreated(created) => Some((created.pod.clone(), created)),
            _ => None,
        });
        let in_groups = prepared.groups.iter().flat_map(|group| &group.machines);
        let nodes =
            prepared.machines.iter().chain(in_groups).map(|machine| (machine.name.clone(), Event::from(machine)));
        Self { nodes: nodes.collect(), pods: created.collect(), records: Vec::new() }
    }

    /// Returns the pods of the study by name.
    pub fn pods(&self) -> &BTreeMap<String, PodCreated> {
        &self.pods
    }

    /// Appends what has happened.
    pub fn note(&mut self, at: Duration, happening: Happening) {
        self.records.extend(self.event(happening).map(|event| Record::new(at, event)));
    }

    fn event(&self, happening: Happening) -> Option<Event> {
        Some(match happening {
            Happening::NodeAdded { node } => self.nodes.get(&node)?.clone(),
            Happening::NodeRemoved { node } => Event::NodeRemoved { node },
            // A pod that no user of the workload has created is none of the study.
            Happening::PodCreated { pod } => Event::PodCreated(self.pods.get(&pod)?.clone()),
            Happening::AttemptFailed { pod, reason } => Event::AttemptFailed { pod, reason },
            Happening::PodScheduled { pod, node, gpus } => Event::PodScheduled { pod, node, gpus },
            Happening::PodStarted { pod } => Event::PodStarted { pod },
            Happening::PodFinished { pod, succeeded } => Event::PodFinished { pod, succeeded },
            Happening::PodPreempted { pod } => Event::PodPreempted { pod, by: String::new() },
            Happening::PodEvicted { pod, reason } => Event::PodEvicted { pod, reason },
            Happening::PodDeleted { pod } => Event::PodDeleted { pod },
            Happening::Ended => Event::Ended,
        })
    }
}
