//! NodeResourcesFit rejects nodes without enough free resources, and scores nodes by their use.
//!
//! Corresponds to pkg/scheduler/framework/plugins/noderesources/fit.go. `scoring_strategy` has the scores.

use crate::dynamic_resources::{BACKED, Backed};
use crate::resource_allocation::CountedResources;
use crate::scoring_strategy::Strategy;
use component_helpers::scheduling::requests::Resources;
use scheduling_framework::cache::{NodeInfo, NodeResources, NodeRow, Snapshot};
use scheduling_framework::configuration::args::NodeResourcesFitArgs;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{
    ClusterEvent, CycleState, Filter, Normalization, Plugin, PreFilter, PreFilterResult, Rejection, Score, event,
};
use std::borrow::Cow;

pub struct NodeResourcesFit {
    /// Extended resources that the filter ignores.
    ignored_resources: Vec<String>,
    /// Groups of extended resources that the filter ignores.
    ignored_groups: Vec<String>,
    counted: CountedResources,
    strategy: Strategy,
}

const NAME: &str = "NodeResourcesFit";

impl NodeResourcesFit {
    pub fn new(args: NodeResourcesFitArgs) -> Self {
        let (counted, strategy) =
            (CountedResources::new(&args.scoring_strategy.resources), Strategy::new(&args.scoring_strategy));
        let (ignored_resources, ignored_groups) = (args.ignored_resources, args.ignored_resource_groups);
        Self { ignored_resources, ignored_groups, counted, strategy }
    }

    fn ignores(&self, resource: &str) -> bool {
        let group = resource.split_once('/').map(|(group, _)| group);
        let is_ignored = self.ignored_resources.iter().any(|name| name == resource);
        group.is_some_and(|group| is_ignored || self.ignored_groups.iter().any(|ignored| ignored == group))
    }

    /// Returns the reasons for which the pod does not fit, each with true if it would not fit on the empty node either. A
    /// resource that devices back is not asked of nodes that do not count it.
    fn insufficient(
        &self,
        requests: &Resources,
        node: NodeResources<'_>,
        backed: Option<&Backed>,
    ) -> Vec<(Cow<'static, str>, bool)> {
        let mut missing: Vec<(Cow<'static, str>, bool)> = Vec::new();
        let (all, used) = (node.allocatable, node.requested);
        if used.pods + 1 > all.pods {
            missing.push(("Too many pods".into(), false));
        }
        let mut check = |reason: &str, wanted: i64, all: i64, used: i64| {
            if wanted > 0 && wanted > all - used {
                missing.push((format!("Insufficient {reason}").into(), wanted > all));
            }
        };
        check("cpu", requests.milli_cpu, all.milli_cpu, used.milli_cpu);
        check("memory", requests.memory, all.memory, used.memory);
        let storage = (requests.ephemeral_storage, all.ephemeral_storage, used.ephemeral_storage);
        check("ephemeral-storage", storage.0, storage.1, storage.2);
        let is_backed = |name: &str| backed.is_some_and(|backed| backed.has(name)) && all.get(name) == 0;
        for (name, wanted) in requests.scalar.iter().filter(|(name, _)| !self.ignores(name) && !is_backed(name)) {
            check(name, *wanted, all.get(name), used.get(name));
        }
        missing
    }
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let asks_for_more = |more: &Resources, less: &Resources| {
            pod.requests.requested().any(|(name, _)| more.get(name) > less.get(name))
        };
        match event {
            ClusterEvent::AssignedPodDeleted(_) => true, // every pod counts against the node's limit of pods
            ClusterEvent::AssignedPodUpdated { old, new } => asks_for_more(&old.requests, &new.requests),
            ClusterEvent::PodUpdated { old, new } => old.requests.exceeds(&new.requests),
            ClusterEvent::NodeAdded(node) => {
                self.insufficient(&pod.requests, event::empty_node_info(node).resources(), None).is_empty()
            }
            ClusterEvent::NodeUpdated { old, new } => {
                let (old, new) = (event::empty_node_info(old), event::empty_node_info(new));
                let grown =
                    new.allocatable.pods > old.allocatable.pods || asks_for_more(&new.allocatable, &old.allocatable);
                grown && self.insufficient(&pod.requests, new.resources(), None).is_empty()
            }
            // A class may begin to back a resource.
            ClusterEvent::DevicesChanged => !pod.requests.scalar.is_empty(),
            _ => false,
        }
    }
}

impl PreFilter for NodeResourcesFit {
    fn pre_filter(&self, _: &mut CycleState, _: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for NodeResourcesFit {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        verdict(self.insufficient(&pod.requests, node.resources(), state.read(BACKED)))
    }

    /// Devices may back a resource of the pod. That is not a matter of the node alone.
    fn is_local(&self, state: &CycleState) -> bool {
        state.read::<Backed>(BACKED).is_none()
    }

    fn filter_by_row(&self, _state: &CycleState, pod: &PodInfo, row: &NodeRow) -> Option<Result<(), Rejection>> {
        Some(verdict(self.insufficient(&pod.requests, row.resources(), None)))
    }

    fn reads_only_rows(&self) -> bool {
        true
    }
}

/// Returns the verdict for what is missing.
fn verdict(missing: Vec<(Cow<'static, str>, bool)>) -> Result<(), Rejection> {
    if missing.is_empty() {
        return Ok(());
    }
    let resolvable = !missing.iter().any(|(_, never)| *never);
    Err(Rejection { plugin: NAME, resolvable, reasons: missing.into_iter().map(|(reason, _)| reason).collect() })
}

impl Score for NodeResourcesFit {
    fn score(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let devices = state.read(BACKED).map(|backed| (backed, node));
        self.strategy.score(&self.counted.with_assumed(pod, node.resources(), devices))
    }

    /// Devices that stand for a resource are not a matter of the node alone.
    fn is_local(&self, state: &CycleState) -> bool {
        !self.counted.has_extended() || state.read::<Backed>(BACKED).is_none()
    }

    fn score_by_row(&self, _state: &CycleState, pod: &PodInfo, row: &NodeRow) -> Option<i64> {
        Some(self.strategy.score(&self.counted.with_assumed(pod, row.resources(), None)))
    }

    fn normalization(&self) -> Normalization {
        Normalization::None
    }
}
