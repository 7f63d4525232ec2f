//! `Simulation`, the plugins of a cycle that judge one node whose pods come and go, as preemption does.
//!
//! It gives the verdicts of `cycle::passes_filters`, and asks the filters that read no pods only once for a node.

use crate::cache::NodeInfo;
use crate::configuration::plugin_sets::Point;
use crate::pod_info::PodInfo;
use crate::rejection::code;
use crate::{CycleState, FailedCycle, Filter, PreFilter, Rejection, cycle};

pub struct Simulation<'a> {
    failed: &'a FailedCycle<'a>,
    pre_filters: Vec<&'a dyn PreFilter>,
    filters: Vec<&'a dyn Filter>,
    /// The filters whose verdict may change with the pods of a node.
    of_pods: Vec<&'a dyn Filter>,
}

/// A node in a simulation, and the state of the plugins there.
pub struct SimulatedNode<'a> {
    simulation: &'a Simulation<'a>,
    pub node: NodeInfo,
    state: CycleState,
    /// True if pods are nominated to the node that the pod may not displace.
    has_nominated: bool,
}

impl<'a> Simulation<'a> {
    pub fn new(failed: &'a FailedCycle<'a>) -> Self {
        let FailedCycle { profile, state, .. } = failed;
        let runs = |plugin: &str| !state.skip_filter.contains(plugin);
        let filters: Vec<&dyn Filter> =
            profile.filter.iter().map(|filter| &**filter).filter(|filter| runs(filter.name())).collect();
        Self {
            failed,
            pre_filters: profile.pre_filter.iter().map(|it| &**it).filter(|it| runs(it.name())).collect(),
            of_pods: filters.iter().copied().filter(|filter| filter.reads_pods()).collect(),
            filters,
        }
    }

    pub fn begin(&'a self, node: &NodeInfo) -> SimulatedNode<'a> {
        let FailedCycle { pod, nominated, state, .. } = self.failed;
        let has_nominated = nominated.of_equal_or_higher_priority(pod, node.name()).next().is_some();
        SimulatedNode { simulation: self, node: node.clone(), state: (*state).clone(), has_nominated }
    }
}

impl SimulatedNode<'_> {
    pub fn remove(&mut self, other: &PodInfo) {
        self.node.remove_pod(other.uid());
        let Self { simulation: Simulation { failed, pre_filters, .. }, node, state, .. } = self;
        pre_filters.iter().for_each(|plugin| plugin.remove_pod(state, failed.pod, other, node));
    }

    pub fn add(&mut self, other: &std::sync::Arc<PodInfo>) {
        self.node.add_pod(other.clone());
        let Self { simulation: Simulation { failed, pre_filters, .. }, node, state, .. } = self;
        pre_filters.iter().for_each(|plugin| plugin.add_pod(state, failed.pod, other, node));
    }

    /// Returns the rejection of the first filter.
    pub fn judge(&self) -> Result<(), Rejection> {
        self.judge_by(&self.simulation.filters)
    }

    /// Returns true if the pod fits now, after it has fitted with other pods on the node.
    pub fn still_fits(&self) -> bool {
        self.judge_by(&self.simulation.of_pods).is_ok()
    }

    fn judge_by(&self, filters: &[&dyn Filter]) -> Result<(), Rejection> {
        let FailedCycle { profile, pod, nominated, .. } = self.simulation.failed;
        if self.has_nominated
            && let Some((state, node)) = cycle::with_nominated(profile, &self.state, pod, &self.node, nominated)
        {
            run(filters, &state, pod, &node)?;
        }
        run(filters, &self.state, pod, &self.node)
    }
}

fn run(filters: &[&dyn Filter], state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
    filters.iter().try_for_each(|filter| {
        state.timings.plugin(filter.name(), Point::Filter, code, || filter.filter(state, pod, node))
    })
}
