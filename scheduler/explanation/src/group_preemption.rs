//! Makes the document of a preemption for a PodGroup as a whole.

use crate::document::{GroupPreemption, GroupVictim};
use scheduling_framework::pod_group_preemption::GroupCandidate;

/// Most candidates that are listed.
const MAX_CANDIDATES: usize = 200;

/// Returns what the preemption for a PodGroup has come to. `pod_group` is the group's key.
pub fn document(pod_group: &str, considered: Result<&[GroupCandidate], &str>) -> GroupPreemption {
    let mut document = GroupPreemption { pod_group: pod_group.to_owned(), ..GroupPreemption::default() };
    match considered {
        Err(why) => why.clone_into(&mut document.message),
        Ok(candidates) => {
            let victims = candidates.iter().filter(|candidate| candidate.is_evicted);
            let others = candidates.iter().filter(|candidate| !candidate.is_evicted);
            document.candidates = victims.chain(others).take(MAX_CANDIDATES).map(listed).collect();
            document.unlisted = candidates.len() - document.candidates.len();
        }
    }
    document
}

fn listed(candidate: &GroupCandidate) -> GroupVictim {
    GroupVictim {
        pods: candidate.pods.iter().map(|pod| pod.key.clone()).collect(),
        pod_group: candidate.pod_group.clone().unwrap_or_default(),
        priority: candidate.priority,
        protected: candidate.is_protected,
        evicted: candidate.is_evicted,
    }
}
