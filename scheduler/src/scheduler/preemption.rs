//! Carries out preemptions: victims are deleted in parallel, beside the next scheduling cycles.
//!
//! The preemptor stays in flight until all requests are sent. So it is not tried too early, and no event is lost that its
//! victims cause.
//! Corresponds to pkg/scheduler/framework/preemption/executor.go.

use super::Scheduler;
use crate::binding::{self, Evictions};
use client::Recorder;
use futures::StreamExt;
use futures::stream;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Nominated, Nomination, PostFilterResult};
use std::sync::Arc;

/// Plugin in whose name a waiting victim is rejected.
pub(super) const PREEMPTION: &str = "DefaultPreemption";
/// Victims of one preemption that are deleted at the same time.
const PARALLEL_VICTIMS: usize = 16;

impl Scheduler {
    /// Returns the writes that make room for a nominated pod, and all others that may let it fit. A victim that waits in
    /// Permit is rejected at once instead.
    pub(super) fn evictions(&self, info: &PodInfo, result: PostFilterResult, nominated: &Nominated) -> Evictions {
        let mut evictions = match &result.nomination {
            Nomination::Node(node) => {
                let lower: Vec<_> = nominated.of_lower_priority(info, node).cloned().collect();
                self.evict(info, &result.victims, &lower, &format!("pod {} on node {node}", info.uid()))
            }
            _ => Evictions::default(),
        };
        evictions.before.extend(result.writes);
        evictions
    }

    /// Returns the writes that evict the victims for `preemptor`, of which `by` is part of the message.
    pub(super) fn evict(
        &self,
        preemptor: &PodInfo,
        victims: &[Arc<PodInfo>],
        lower: &[Arc<PodInfo>],
        by: &str,
    ) -> Evictions {
        let waits = |victim: &&Arc<PodInfo>| self.waiting_pods.reject(victim.uid(), PREEMPTION, "preempted");
        let victims: Vec<_> = victims.iter().filter(|victim| !waits(victim)).cloned().collect();
        binding::evict_victims(preemptor, &victims, lower, by, self.env.wall())
    }

    /// Sends all requests. Returns false if one has failed: then no event may follow, and the preemptor has to be tried
    /// again. The last victim is spared if another one could not be deleted.
    pub(super) async fn carry_out(&self, info: &PodInfo, recorder: &Recorder, evictions: Evictions) -> bool {
        let Evictions { before, mut victims } = evictions;
        let before = self.apply(info, recorder, before).await;
        let last = victims.pop();
        let deleted = stream::iter(victims)
            .map(|actions| self.apply(info, recorder, actions))
            .buffer_unordered(PARALLEL_VICTIMS)
            .fold(true, |all, one| async move { all && one })
            .await;
        match last {
            Some(actions) if deleted => self.apply(info, recorder, actions).await && before,
            _ => deleted && before,
        }
    }
}
