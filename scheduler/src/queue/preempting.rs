//! Pods that preempt: they stay in the queue, and are not tried again before their victims are evicted.
//!
//! Corresponds to IsPodRunningPreemption of pkg/scheduler/framework/preemption/executor.go and to PreEnqueue of
//! DefaultPreemption.
//!
//! ```text
//! begin_preemption -> requests for all victims but one -> await_last_victim -> the last request -> end_preemption
//! ```

use super::{QueuedPod, SchedulingQueue, history};
use scheduling_framework::ClusterEvent;
use scheduling_framework::pod_info::PodInfo;
use tokio::time::Instant;

/// Plugin in whose name a preemptor is held.
pub const PREEMPTION: &str = "DefaultPreemption";

impl SchedulingQueue {
    /// Holds a pod, or all pods of a PodGroup, back from now on. `preemptor` is the uid or the key of the group.
    pub fn begin_preemption(&mut self, preemptor: &str) {
        self.preempting.insert(preemptor.to_owned(), None);
    }

    /// Ends the hold when this victim is gone, because no other event may follow.
    pub fn await_last_victim(&mut self, preemptor: &str, victim_uid: &str) {
        if let Some(last) = self.preempting.get_mut(preemptor) {
            *last = Some(victim_uid.to_owned());
        }
    }

    /// Ends the hold after the last request. Pods that an event has woken meanwhile are tried again.
    pub fn end_preemption(&mut self, preemptor: &str, now: Instant) {
        self.preempting.remove(preemptor);
        let is_held = |queued: &QueuedPod| {
            queued.rejected_by.contains(PREEMPTION)
                && (queued.info.uid() == preemptor || queued.info.pod_group_key().is_some_and(|key| key == preemptor))
        };
        let held: Vec<String> = self.gated.values().filter(|uid| is_held(&self.pods[*uid].0)).cloned().collect();
        for uid in held {
            if let Some((queued, _)) = self.take(&uid) {
                self.requeue(queued.after(history::FORCED), now);
            }
        }
    }

    /// Returns true while victims are evicted for the pod or its group.
    pub(super) fn is_preempting(&self, pod: &PodInfo) -> bool {
        !self.preempting.is_empty()
            && (self.preempting.contains_key(pod.uid())
                || pod.pod_group_key().is_some_and(|key| self.preempting.contains_key(&key)))
    }

    /// Returns the uid of the last victim of the pod or its group, if all others are gone.
    pub(super) fn last_victim(&self, pod: &PodInfo) -> Option<&str> {
        let of_group = || pod.pod_group_key().and_then(|key| self.preempting.get(&key));
        self.preempting.get(pod.uid()).or_else(of_group)?.as_deref()
    }

    /// Ends the hold of preemptors that wait for no other victim than this one.
    pub(super) fn end_preemptions_by(&mut self, event: &ClusterEvent) {
        if let ClusterEvent::AssignedPodDeleted(victim) = event {
            self.preempting.retain(|_, last| last.as_deref() != Some(victim.uid()));
        }
    }
}
