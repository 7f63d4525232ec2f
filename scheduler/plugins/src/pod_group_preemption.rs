//! Chooses the victims of a preemption for a PodGroup as a whole.
//!
//! Corresponds to pkg/scheduler/framework/preemption/podgrouppreemption.go.

use crate::default_preemption::{self, DefaultPreemption};
use async_trait::async_trait;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use scheduling_framework::pod_group_preemption::{FailedGroup, FitsWithout, GroupCandidate, PodGroupPostFilter};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::preemption;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

#[async_trait]
impl PodGroupPostFilter for DefaultPreemption {
    /// Takes all pods of lower priority away. Then gives each of them back, the more important ones first, while the group
    /// still fits. The rest are the victims.
    async fn pod_group_post_filter(
        &self,
        failed: &FailedGroup<'_>,
        trial: &mut dyn FitsWithout,
    ) -> Result<Vec<GroupCandidate>, String> {
        if failed.pods.iter().any(|pod| pod.spec().preemption_policy.as_deref() == Some("Never")) {
            return Err("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        let priority = priority(&failed.object);
        let mut potential: Vec<GroupCandidate> =
            candidates(failed).into_iter().filter(|candidate| candidate.priority < priority).collect();
        if potential.is_empty() {
            return Err("No preemption victims found for incoming preemptor".to_owned());
        }
        potential.sort_by_cached_key(importance);
        if !fits(&potential, trial).await {
            return Err("Preemption is not helpful for scheduling".to_owned());
        }
        self.protected_first(&mut potential);
        for at in 0..potential.len() {
            potential[at].is_evicted = false;
            potential[at].is_evicted = !fits(&potential, trial).await;
        }
        Ok(potential)
    }
}

impl DefaultPreemption {
    /// Moves those to the front whose eviction violates a disruption budget. All others keep their order.
    fn protected_first(&self, potential: &mut [GroupCandidate]) {
        let pods: Vec<Arc<PodInfo>> = potential.iter().flat_map(|candidate| candidate.pods.clone()).collect();
        let (protected, _) = default_preemption::split_by_budget(pods, &self.budgets());
        for candidate in &mut *potential {
            candidate.is_protected =
                candidate.pods.iter().any(|pod| protected.iter().any(|other| other.uid() == pod.uid()));
        }
        potential.sort_by_key(|candidate| !candidate.is_protected);
    }
}

async fn fits(potential: &[GroupCandidate], trial: &mut dyn FitsWithout) -> bool {
    let evicted = potential.iter().filter(|candidate| candidate.is_evicted);
    let pods: Vec<&Arc<PodInfo>> = evicted.flat_map(|candidate| &candidate.pods).collect();
    trial.fits_without(&pods).await
}

fn priority(group: &PodGroup) -> i32 {
    group.spec.priority.unwrap_or(0)
}

/// Returns all placed pods of other groups, and those without one. The pods of a group whose disruption mode is `PodGroup`
/// are one candidate. At first all are evicted.
fn candidates(failed: &FailedGroup<'_>) -> Vec<GroupCandidate> {
    let own = failed.pods.first().and_then(|pod| pod.pod_group_key());
    let (mut groups, mut single) = (BTreeMap::<String, GroupCandidate>::new(), Vec::new());
    let new = |priority: i32, pod_group: Option<String>| GroupCandidate {
        pods: Vec::new(),
        priority,
        pod_group,
        is_protected: false,
        is_evicted: true,
    };
    for pod in failed.placed.iter().filter(|pod| pod.pod_group_key().is_none_or(|key| Some(key) != own)) {
        let object = failed.groups.object_of(pod);
        let of_group = object.filter(|group| group.spec.disruption_mode.as_deref() == Some("PodGroup"));
        match (of_group, pod.pod_group_key()) {
            (Some(group), Some(key)) => {
                let of_group = || new(priority(&group), Some(key.clone()));
                groups.entry(key.clone()).or_insert_with(of_group).pods.push(pod.clone());
            }
            _ => single.push(GroupCandidate { pods: vec![pod.clone()], ..new(pod.priority, None) }),
        }
    }
    groups.into_values().chain(single).collect()
}

/// Returns a sort key: higher priorities first, then groups, then the larger group or the pod that started first.
fn importance(candidate: &GroupCandidate) -> impl Ord + use<> {
    let first = candidate.pods.first().map(|pod| preemption::importance(pod));
    let is_group = candidate.pod_group.is_some();
    (Reverse(candidate.priority), !is_group, Reverse(if is_group { candidate.pods.len() } else { 0 }), first)
}
