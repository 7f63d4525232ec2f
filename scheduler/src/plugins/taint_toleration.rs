//! TaintToleration: nodes repel pods that do not tolerate their taints; taints of the soft kind cost points.
//!
//! Corresponds to pkg/scheduler/framework/plugins/tainttoleration.

use crate::cache::{NodeInfo, Snapshot, node_info};
use crate::framework::profile::normalize_to_highest;
use crate::framework::{ClusterEvent, CycleState, Filter, Plugin, Rejection, Score};
use crate::pod_info::PodInfo;
use proto::kinds::api::core::v1::{Node, Taint};
use proto::scheduling::tolerations::{self, tolerates};
use std::sync::Arc;

pub struct TaintToleration;

const NAME: &str = "TaintToleration";

/// A taint that keeps pods away and that the pod does not tolerate.
pub fn untolerated<'a>(pod: &PodInfo, taints: &'a [Taint]) -> Option<&'a Taint> {
    let hard = taints.iter().filter(|taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute"));
    tolerations::untolerated(pod.spec().tolerations.as_deref().unwrap_or_default(), hard)
}

impl Plugin for TaintToleration {
    fn name(&self) -> &'static str {
        NAME
    }

    /// A node whose taints the pod did not tolerate has lost them, or the pod has learnt to.
    fn is_helped_by(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
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
}

fn is_soft(taint: &Taint) -> bool {
    taint.effect == "PreferNoSchedule"
}

impl Score for TaintToleration {
    /// How many soft taints the pod does not tolerate: the fewer, the better.
    fn score(&self, _state: &CycleState, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> i64 {
        let tolerations = pod.spec().tolerations.as_deref().unwrap_or_default();
        let tolerated = |taint: &Taint| tolerations.iter().any(|toleration| tolerates(toleration, taint));
        node.taints().iter().filter(|taint| is_soft(taint) && !tolerated(taint)).count() as i64
    }

    fn normalize(&self, _: &CycleState, _: &PodInfo, _: &[&NodeInfo], scores: &mut [i64]) {
        normalize_to_highest(scores, true);
    }
}
