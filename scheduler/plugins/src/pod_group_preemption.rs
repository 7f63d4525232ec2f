//! Chooses the victims of a preemption for a PodGroup as a whole.
//!
//! Corresponds to pkg/scheduler/framework/preemption/podgrouppreemption.go.

use crate::default_preemption::{self, DefaultPreemption};
use async_trait::async_trait;
use proto::kinds::api::scheduling::v1alpha2::PodGroup;
use scheduling_framework::pod_group_preemption::{FailedGroup, FitsWithout, PodGroupPostFilter};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::preemption;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pods that are evicted together, or not at all.
struct Victim {
    pods: Vec<Arc<PodInfo>>,
    priority: i32,
    is_group: bool,
}

#[async_trait]
impl PodGroupPostFilter for DefaultPreemption {
    /// Takes all pods of lower priority away. Then gives each of them back, the more important ones first, while the group
    /// still fits. The rest are the victims.
    async fn pod_group_post_filter(
        &self,
        failed: &FailedGroup<'_>,
        trial: &mut dyn FitsWithout,
    ) -> Result<Vec<Arc<PodInfo>>, String> {
        if failed.pods.iter().any(|pod| pod.spec().preemption_policy.as_deref() == Some("Never")) {
            return Err("not eligible due to preemptionPolicy=Never.".to_owned());
        }
        let priority = priority(&failed.object);
        let mut potential: Vec<Victim> =
            victims(failed).into_iter().filter(|victim| victim.priority < priority).collect();
        if potential.is_empty() {
            return Err("No preemption victims found for incoming preemptor".to_owned());
        }
        potential.sort_by_cached_key(importance);
        let mut removed: Vec<bool> = vec![true; potential.len()];
        if !fits(&potential, &removed, trial).await {
            return Err("Preemption is not helpful for scheduling".to_owned());
        }
        for at in self.reprieve_order(&potential) {
            removed[at] = false;
            removed[at] = !fits(&potential, &removed, trial).await;
        }
        Ok(potential.into_iter().zip(removed).filter(|(_, removed)| *removed).flat_map(|(one, _)| one.pods).collect())
    }
}

impl DefaultPreemption {
    /// Returns the indices of the victims: first those whose eviction violates a disruption budget.
    fn reprieve_order(&self, potential: &[Victim]) -> Vec<usize> {
        let pods: Vec<Arc<PodInfo>> = potential.iter().flat_map(|victim| victim.pods.clone()).collect();
        let (protected, _) = default_preemption::split_by_budget(pods, &self.budgets());
        let is_protected =
            |at: &usize| potential[*at].pods.iter().any(|pod| protected.iter().any(|other| other.uid() == pod.uid()));
        let (first, last): (Vec<usize>, Vec<usize>) = (0..potential.len()).partition(is_protected);
        [first, last].concat()
    }
}

async fn fits(potential: &[Victim], removed: &[bool], trial: &mut dyn FitsWithout) -> bool {
    let pods: Vec<&Arc<PodInfo>> =
        potential.iter().zip(removed).filter(|(_, removed)| **removed).flat_map(|(victim, _)| &victim.pods).collect();
    trial.fits_without(&pods).await
}

fn priority(group: &PodGroup) -> i32 {
    group.spec.priority.unwrap_or(0)
}

/// Returns all placed pods of other groups, and those without one. The pods of a group whose disruption mode is `PodGroup`
/// are one victim.
fn victims(failed: &FailedGroup<'_>) -> Vec<Victim> {
    let own = failed.pods.first().and_then(|pod| pod.pod_group_key());
    let (mut groups, mut single) = (BTreeMap::<String, Victim>::new(), Vec::new());
    for pod in failed.placed.iter().filter(|pod| pod.pod_group_key().is_none_or(|key| Some(key) != own)) {
        let object = failed.groups.object_of(pod);
        let of_group = object.filter(|group| group.spec.disruption_mode.as_deref() == Some("PodGroup"));
        match (of_group, pod.pod_group_key()) {
            (Some(group), Some(key)) => {
                let new = || Victim { pods: Vec::new(), priority: priority(&group), is_group: true };
                groups.entry(key).or_insert_with(new).pods.push(pod.clone());
            }
            _ => single.push(Victim { pods: vec![pod.clone()], priority: pod.priority, is_group: false }),
        }
    }
    groups.into_values().chain(single).collect()
}

/// Returns a sort key: higher priorities first, then groups, then the larger group or the pod that started first.
fn importance(victim: &Victim) -> impl Ord + use<> {
    let first = victim.pods.first().map(|pod| preemption::importance(pod));
    (Reverse(victim.priority), !victim.is_group, Reverse(if victim.is_group { victim.pods.len() } else { 0 }), first)
}
