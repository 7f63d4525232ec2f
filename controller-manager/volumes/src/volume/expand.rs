//! The expander says of a claim that asks for more than it has that another program has to resize its volume.
//!
//! Every volume is resized by its driver, since none is handled within the controller manager. Corresponds to
//! pkg/controller/volume/expand.

use super::{claims, volumes};
use client::reconcile::Reconciler;
use client::{Event, Lister, Plan};
use controller_base::actions;
use controller_base::context::Running;
use controller_base::descriptor::Setup;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::sync::Arc;

const WORKERS: usize = 1;
const WAITING: &str = "waiting for an external controller to expand this PVC";

struct Controller {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
}

pub fn start(setup: &Setup<'_>) -> Running {
    let queue = setup.queue();
    setup.on_event(&queue, |event: &Event<PersistentVolumeClaim>, queue| {
        let Event::Updated { old, new } = event else { return };
        if claims::requested(new) > claims::requested(old) {
            queue.add(new.key());
        }
    });
    setup.run(queue, WORKERS, Controller { claims: setup.lister(), volumes: setup.lister() })
}

/// Plans the event about a bound claim that asks for more than it has. Pure.
pub fn plan(claim: &PersistentVolumeClaim) -> Plan {
    let is_small = claims::size(claim).is_some_and(|size| size < claims::requested(claim));
    if claims::phase(claim) != volumes::BOUND || !is_small {
        return Plan::default();
    }
    Plan::of([actions::warning(claim, "ExternalExpanding", WAITING)])
}

impl Reconciler for Controller {
    type Observed = Arc<PersistentVolumeClaim>;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let claim = self.claims.by_key(key)?;
        let volume = self.volumes.get("", claims::volume_name(&claim))?;
        (volumes::claim_uid(&volume) == claim.uid()).then_some(claim)
    }

    fn plan(&self, claim: &Self::Observed, _now: Timestamp) -> Plan {
        plan(claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::{claim, size};

    #[test]
    fn a_claim_that_asks_for_more_waits_for_its_driver() {
        let mut claim = claim("c", None);
        assert_eq!(plan(&claim).to_string(), "");
        let status = claim.status.get_or_insert_default();
        (status.phase, status.capacity) = (Some("Bound".to_owned()), Some(size("512Mi")));
        assert_eq!(
            plan(&claim).to_string(),
            "event Warning ExternalExpanding PersistentVolumeClaim default/c: waiting for an external controller to expand \
             this PVC\n"
        );
        claim.status.get_or_insert_default().capacity = Some(size("1Gi"));
        assert_eq!(plan(&claim).to_string(), "");
    }
}
