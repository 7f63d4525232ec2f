//! Carries out preemptions: victims are deleted in parallel, beside the next scheduling cycles.
//!
//! The preemptor is in the queue meanwhile, which holds it back until the last request. So it is not tried too early, and
//! the event of the last victim wakes it.
//! Corresponds to pkg/scheduler/framework/preemption/executor.go.

use super::Scheduler;
use crate::binding::{self, Evictions};
use crate::queue::preempting::PREEMPTION;
use client::Recorder;
use futures::StreamExt;
use futures::stream;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Nominated, Nomination, PostFilterResult};
use std::sync::Arc;

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

    /// Returns the name by which the queue holds a preemptor: a group preempts as a whole.
    pub(super) fn preemptor(&self, info: &PodInfo) -> String {
        let group = info.pod_group_key().filter(|_| self.schedules_groups);
        group.unwrap_or_else(|| info.uid().to_owned())
    }

    /// Sends all requests. Returns false if one has failed: then no event may follow, and the preemptor has to be tried
    /// again. The last victim is spared if another one could not be deleted.
    pub(super) async fn carry_out(&self, info: &PodInfo, recorder: &Recorder, evictions: Evictions) -> bool {
        let Evictions { before, mut victims } = evictions;
        let (began, before) = (self.env.now(), self.apply(info, recorder, before).await);
        let Some(last) = victims.pop() else { return before };
        let deleted = stream::iter(victims)
            .map(|victim| self.apply(info, recorder, victim.actions))
            .buffer_unordered(PARALLEL_VICTIMS)
            .fold(true, |all, one| async move { all && one })
            .await;
        let succeeded = deleted && {
            self.queue.with(|queue, _| queue.await_last_victim(&self.preemptor(info), &last.uid));
            self.apply(info, recorder, last.actions).await && before
        };
        if let Some(metrics) = &self.preemption_metrics {
            metrics.ended(succeeded, self.env.now() - began);
        }
        succeeded
    }
}
