//! `HeldPod`, a pod that PreEnqueue keeps out of the active queue, for an explanation.
//!
//! No cycle runs for such a pod, so there is no attempt that could be explained.

use super::preempting::PREEMPTION;
use super::{QueuePosition, QueuedPod, SchedulingQueue};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{Profile, Rejection};
use tokio::time::Instant;

/// Why a preemptor is not active.
const PREEMPTING: &str = "waiting for the preemption for this pod to be finished";

/// A pod that is held, and what is known about it.
pub struct HeldPod<'a> {
    pub queued: &'a QueuedPod,
    /// The scheduler name of the pod's profile.
    pub profile: &'a str,
    pub since: Instant,
    /// The present verdict; `None` if nothing holds the pod any more, and the event that tells it is still to come.
    pub rejection: Option<Rejection>,
    /// What could let the pod in.
    pub waits_for: Vec<String>,
}

impl SchedulingQueue {
    /// Returns the pods that PreEnqueue holds. The plugins are asked again.
    pub fn held(&self) -> impl Iterator<Item = HeldPod<'_>> {
        let held = self.pods.values().filter(|(_, position)| matches!(position, QueuePosition::Gated(_)));
        held.filter_map(|(queued, _)| {
            let profile = self.profiles.of(&queued.info.pod)?;
            let rejection = self.judge(profile, &queued.info).err();
            let waits_for = rejection.as_ref().map(|rejection| self.waits_for(profile, &queued.info, rejection));
            Some(HeldPod {
                queued,
                profile: &profile.scheduler_name,
                since: queued.held_since.unwrap_or(queued.since),
                rejection,
                waits_for: waits_for.unwrap_or_default(),
            })
        })
    }

    /// Returns the verdict of PreEnqueue about a pod.
    pub(super) fn judge(&self, profile: &Profile, pod: &PodInfo) -> Result<(), Rejection> {
        match self.is_preempting(pod) {
            true => Err(Rejection::unresolvable(PREEMPTION, PREEMPTING)),
            false => profile.run_pre_enqueue(pod),
        }
    }

    fn waits_for(&self, profile: &Profile, pod: &PodInfo, rejection: &Rejection) -> Vec<String> {
        if self.is_preempting(pod) {
            return vec![match self.last_victim(pod) {
                Some(uid) => format!("the deletion of its last victim, the pod with the uid {uid}"),
                None => "the end of the requests that evict its victims".to_owned(),
            }];
        }
        let plugin = profile.pre_enqueue.iter().find(|plugin| plugin.name() == rejection.plugin);
        plugin.map(|plugin| plugin.waits_for(pod)).unwrap_or_default()
    }
}
