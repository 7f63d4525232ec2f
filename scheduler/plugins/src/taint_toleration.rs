//! TaintToleration rejects nodes whose NoSchedule and NoExecute taints the pod does not tolerate, and scores nodes by
//! their PreferNoSchedule taints.
//!
//! Corresponds to pkg/scheduler/framework/plugins/tainttoleration.

use component_helpers::scheduling::tolerations::{self, tolerates};
use proto::kinds::api::core::v1::{Node, Taint};
use scheduling_framework::cache::{NodeInfo, NodeRow, Snapshot, node_info};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::profile::normalize_to_highest;
use scheduling_framework::{ClusterEvent, CycleState, FeasibleNodes, Filter, Normalization, Plugin, Rejection, Score};
use std::sync::Arc;

pub struct TaintToleration;

const NAME: &str = "TaintToleration";

/// Returns the first NoSchedule or NoExecute taint that the pod does not tolerate.
pub fn untolerated<'a>(pod: &PodInfo, taints: &'a [Taint]) -> Option<&'a Taint> {
    let hard = taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    tolerations::untolerated(pod.spec().tolerations.as_deref().unwrap_or_default(), hard)
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    /// Returns true if the pod now tolerates a node's taints and did not before, or if its tolerations have changed.
    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        let open = |node: &Arc<Node>| untolerated(pod, node_info::taints(node)).is_none();
        event.node_change().is_some_and(|(old, new)| open(new) && !old.is_some_and(open))
            || event.pod_if_changed(|pod| pod.spec().tolerations.clone())
    }
}

impl Filter for TaintToleration {
    fn filter(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        match untolerated(pod, node.taints()) {
            Some(_) => Err(Rejection::unresolvable(NAME, "node(s) had untolerated taint(s)")),
            None => Ok(()),
        }
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }

    fn filter_by_row(&self, _state: &CycleState, _pod: &PodInfo, row: &NodeRow) -> Option<Result<(), Rejection>> {
        (!row.has_taints).then_some(Ok(()))
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

fn is_prefer_no_schedule(taint: &Taint) -> bool {
    taint.effect == "PreferNoSchedule"
}

impl Score for TaintToleration {
    /// Returns the number of PreferNoSchedule taints that the pod does not tolerate. `normalize` reverses it.
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let tolerations = pod.spec().tolerations.as_deref().unwrap_or_default();
        let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
        node.taints().iter().filter(|taint| is_prefer_no_schedule(taint) && !tolerated(taint)).count() as i64
    }

    fn is_local(&self, _state: &CycleState) -> bool {
        true
    }

    fn score_by_row(&self, _state: &CycleState, _pod: &PodInfo, row: &NodeRow) -> Option<i64> {
        (!row.has_taints).then_some(0)
    }

    fn normalization(&self) -> Normalization {
        Normalization::ToHighest
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &FeasibleNodes<'_>, scores: &mut [i64]) {
        normalize_to_highest(scores, true);
    }
}
