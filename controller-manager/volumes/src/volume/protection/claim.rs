//! Keeps a deleted claim while a pod that has a node uses it.
//!
//! Corresponds to pkg/controller/volume/pvcprotection.

use client::reconcile::Reconciler;
use client::{Client, Event, ListOptions, Lister, Plan, ReconcileError, WorkQueue};
use component_helpers::volumes::pod_volumes;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use controller_base::finalizer::{self, concerns, is_candidate};
use controller_base::indexes::{self, PODS_BY_CLAIM};
use controller_base::pod;
use jiff::Timestamp;
use proto::Kind;
use proto::finalizers::PVC_PROTECTION;
use proto::kinds::api::core::v1::{PersistentVolumeClaim, Pod};
use std::sync::Arc;

const WORKERS: usize = 1;

struct Controller {
    claims: Lister<PersistentVolumeClaim>,
    pods: Lister<Pod>,
}

struct Observed {
    claim: Arc<PersistentVolumeClaim>,
    is_used: bool,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    indexes::pods_by_claim(&setup.informer());
    setup.on_event(&queue, |event: &Event<PersistentVolumeClaim>, queue| {
        if concerns(event, PVC_PROTECTION) {
            queue.add(event.object().key());
        }
    });
    setup.on_event(&queue, on_pod);
    setup.run(queue, WORKERS, Controller { claims: setup.lister(), pods: setup.lister() })
}

/// Adds the claims of a pod that is gone. An update may hide that another pod took the name of a deleted one.
fn on_pod(event: &Event<Pod>, queue: &WorkQueue<String>) {
    let gone = match event {
        Event::Deleted(pod) => pod,
        Event::Updated { old, new } if old.uid() != new.uid() || is_shut_down(new) => old,
        _ => return,
    };
    pod_volumes::claim_keys(gone).into_iter().for_each(|key| queue.add(key));
}

/// Returns true if the pod uses the claim: a kubelet may have mounted it. A pod without a node does not: no kubelet starts a
/// pod with a claim that is being deleted.
pub fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    let volume = pod_volumes::volume_of(pod, claim).filter(|_| !pod::node_name(pod).is_empty());
    volume.is_some_and(|volume| volume.ephemeral.is_none() || !is_shut_down(pod))
}

/// Returns true if the kubelet has done with the pod, or need not be waited for.
fn is_shut_down(pod: &Pod) -> bool {
    pod.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0)
}

impl Reconciler for Controller {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let claim = self.claims.by_key(key)?;
        let is_used = self.pods.by_index(PODS_BY_CLAIM, key).iter().any(|pod| uses(pod, &claim));
        Some(Observed { claim, is_used })
    }

    /// Asks the server for pods before the claim goes: the cache may lack one.
    async fn consult(&self, client: &Client, observed: Observed) -> Result<Option<Observed>, ReconcileError> {
        let Observed { claim, is_used } = observed;
        if is_used || !is_candidate(&*claim, PVC_PROTECTION) {
            return Ok(Some(Observed { claim, is_used }));
        }
        let pods = client.api::<Pod>(claim.namespace()).list(&ListOptions::default()).await?;
        let is_used = pods.items.iter().any(|pod| uses(pod, &claim));
        Ok(Some(Observed { claim, is_used }))
    }

    fn plan(&self, observed: &Observed, _now: Timestamp) -> Plan {
        finalizer::plan(&*observed.claim, PVC_PROTECTION, observed.is_used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::claim;
    use controller_base::controller_ref::controller_ref;
    use controller_base::fixture::{self, set_phase, time};
    use proto::kinds::api::core::v1::{EphemeralVolumeSource, PersistentVolumeClaimVolumeSource, Volume};

    fn pod_with(claim_name: &str, is_ephemeral: bool) -> Pod {
        let mut pod = fixture::pod("web");
        let mut volume = Volume { name: "data".to_owned(), ..Volume::default() };
        if is_ephemeral {
            volume.ephemeral = Some(EphemeralVolumeSource::default());
        } else {
            let source = PersistentVolumeClaimVolumeSource { claim_name: claim_name.to_owned(), read_only: None };
            volume.persistent_volume_claim = Some(source);
        }
        let spec = pod.spec.get_or_insert_default();
        (spec.volumes, spec.node_name) = (Some(vec![volume]), Some("node-1".to_owned()));
        pod
    }

    #[test]
    fn a_pod_with_a_node_uses_the_claims_that_it_names() {
        let pod = pod_with("c", false);
        assert!(uses(&pod, &claim("c", None)) && !uses(&pod, &claim("d", None)));
        let mut elsewhere = claim("c", None);
        elsewhere.metadata.namespace = Some("other".to_owned());
        assert!(!uses(&pod, &elsewhere));
        let mut ended = pod.clone();
        set_phase(&mut ended, "Succeeded");
        assert!(uses(&ended, &claim("c", None)), "as long as the pod is there");
        let mut unscheduled = pod;
        unscheduled.spec.get_or_insert_default().node_name = None;
        assert!(!uses(&unscheduled, &claim("c", None)));
    }

    #[test]
    fn an_ephemeral_volume_uses_the_claim_of_its_pod_until_it_is_shut_down() {
        let mut pod = pod_with("", true);
        let mut own = claim("web-data", None);
        assert!(!uses(&pod, &own), "somebody else's");
        own.metadata.owner_references = Some(vec![controller_ref(&pod)]);
        assert!(uses(&pod, &own));
        pod.metadata.deletion_timestamp = Some(time(1));
        pod.metadata.deletion_grace_period_seconds = Some(0);
        assert!(!uses(&pod, &own));
    }
}
