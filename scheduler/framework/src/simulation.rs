//! `Simulation`, the plugins of a cycle that judge one node whose pods come and go, as preemption does.
//!
//! It gives the verdicts of `cycle::passes_filters`, and asks the filters that read no pods only once for a node. If rows of nodes
//! suffice for the others, it simulates the sums of a row and copies no node.

use crate::cache::{NodeInfo, NodeRow};
use crate::configuration::plugin_sets::Point;
use crate::pod_info::PodInfo;
use crate::rejection::code;
use crate::{CycleState, FailedCycle, Filter, PreFilter, Rejection, cycle};
use std::sync::Arc;

pub struct Simulation<'a> {
    failed: &'a FailedCycle<'a>,
    pre_filters: Vec<&'a dyn PreFilter>,
    filters: Vec<&'a dyn Filter>,
    /// The filters whose verdict may change with the pods of a node.
    of_pods: Vec<&'a dyn Filter>,
    /// True if a row suffices for each of them.
    read_only_rows: bool,
}

/// A node in a simulation.
pub struct SimulatedNode<'a> {
    simulation: &'a Simulation<'a>,
    /// The node with all its pods.
    before: &'a NodeInfo,
    now: Simulated,
}

/// What is left of the node.
enum Simulated {
    Row(NodeRow),
    Node(Box<SimulatedCopy>),
}

struct SimulatedCopy {
    node: NodeInfo,
    /// The state of the plugins there.
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
        let of_pods: Vec<&dyn Filter> = filters.iter().copied().filter(|filter| filter.reads_pods()).collect();
        Self {
            failed,
            pre_filters: profile.pre_filter.iter().map(|it| &**it).filter(|it| runs(it.name())).collect(),
            read_only_rows: of_pods.iter().all(|filter| filter.reads_only_rows() && filter.is_local(state)),
            of_pods,
            filters,
        }
    }

    pub fn begin(&'a self, node: &'a NodeInfo) -> SimulatedNode<'a> {
        let FailedCycle { pod, nominated, state, .. } = self.failed;
        let has_nominated = nominated.of_equal_or_higher_priority(pod, node.name()).next().is_some();
        let is_saturated = node.requested.is_saturated() || node.non_zero_requested.is_saturated();
        let now = match self.read_only_rows && !has_nominated && !is_saturated {
            true => Simulated::Row(NodeRow::of(node)),
            false => {
                let (node, state) = (node.clone(), (*state).clone());
                Simulated::Node(Box::new(SimulatedCopy { node, state, has_nominated }))
            }
        };
        SimulatedNode { simulation: self, before: node, now }
    }
}

impl SimulatedNode<'_> {
    pub fn remove(&mut self, other: &PodInfo) {
        let Self { simulation: Simulation { failed, pre_filters, .. }, now, .. } = self;
        match now {
            Simulated::Row(row) => row.remove_pod(other),
            Simulated::Node(copy) => {
                let SimulatedCopy { node, state, .. } = &mut **copy;
                node.remove_pod(other.uid());
                pre_filters.iter().for_each(|plugin| plugin.remove_pod(state, failed.pod, other, node));
            }
        }
    }

    pub fn add(&mut self, other: &Arc<PodInfo>) {
        let Self { simulation: Simulation { failed, pre_filters, .. }, now, .. } = self;
        match now {
            Simulated::Row(row) => row.add_pod(other),
            Simulated::Node(copy) => {
                let SimulatedCopy { node, state, .. } = &mut **copy;
                node.add_pod(other.clone());
                pre_filters.iter().for_each(|plugin| plugin.add_pod(state, failed.pod, other, node));
            }
        }
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
        let copy = match &self.now {
            Simulated::Row(row) => return self.judge_row(filters, row),
            Simulated::Node(copy) => copy,
        };
        if copy.has_nominated
            && let Some((state, node)) = cycle::with_nominated(profile, &copy.state, pod, &copy.node, nominated)
        {
            run(filters, &state, pod, &node)?;
        }
        run(filters, &copy.state, pod, &copy.node)
    }

    /// Filters that read no pods may look at the node with all its pods.
    fn judge_row(&self, filters: &[&dyn Filter], row: &NodeRow) -> Result<(), Rejection> {
        let FailedCycle { pod, state, .. } = self.simulation.failed;
        filters.iter().try_for_each(|filter| {
            let by_row = if filter.is_local(state) { filter.filter_by_row(state, pod, row) } else { None };
            by_row.unwrap_or_else(|| run(&[*filter], state, pod, self.before))
        })
    }
}

fn run(filters: &[&dyn Filter], state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
    filters.iter().try_for_each(|filter| {
        state.timings.plugin(filter.name(), Point::Filter, code, || filter.filter(state, pod, node))
    })
}
