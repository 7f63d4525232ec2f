//! What the driver does about a bound claim that asks for more than it has.
//!
//! Corresponds to pkg/controller/controller.go and resize_status.go of the external-resizer.
//!
//! Deviation: a simulated volume is resized without its node, so no kubelet resizes a file system, and a claim never has
//! the condition FileSystemResizePending.

use super::call::Call;
use super::driver::{Driver, has_our_source};
use crate::volume::claims::{self, STORAGE};
use crate::volume::volumes;
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Plan};
use controller_base::actions;
use controller_base::context::Actor;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::apimachinery::api::resource::Quantity;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const IN_PROGRESS: &str = "ControllerResizeInProgress";
const RESIZING: &str = "Resizing";

#[derive(Debug)]
pub struct Observed {
    pub claim: Arc<PersistentVolumeClaim>,
    pub volume: Arc<PersistentVolume>,
    pub latency: Duration,
    pub call: Call,
}

/// Returns true if the claim is bound to this volume of ours, and asks for more than it has.
fn is_due(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    has_our_source(volume)
        && claims::phase(claim) == volumes::BOUND
        && volumes::claim_uid(volume) == claim.uid()
        && claims::size(claim).is_some_and(|size| size < claims::requested(claim))
}

/// Plans the next of three steps: the claim's status says what begins, the volume grows, the claim has its size.
pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let (claim, volume) = (&*observed.claim, &*observed.volume);
    if volumes::capacity(volume) >= claims::requested(claim) {
        let event = actions::normal(claim, "VolumeResizeSuccessful", "Resize volume succeeded");
        return Plan::of([finished(claim, volume), event]);
    }
    if !is_in_progress(claim) {
        let message = format!("External resizer is resizing volume {}", volume.name());
        return Plan::of([begun(claim, now), actions::normal(claim, RESIZING, message)]);
    }
    observed.call.wait(observed.latency, now).unwrap_or_else(|| Plan::of([grown(volume, claim)]))
}

/// Returns true once the status says that the volume is to grow to what the claim requests now.
fn is_in_progress(claim: &PersistentVolumeClaim) -> bool {
    let status = claims::status(claim);
    let state = status.allocated_resource_statuses.unwrap_or_default().remove(STORAGE);
    let size = status.allocated_resources.unwrap_or_default().remove(STORAGE);
    state.as_deref() == Some(IN_PROGRESS) && size == Some(wanted(claim))
}

fn wanted(claim: &PersistentVolumeClaim) -> Quantity {
    Quantity(claims::requested(claim).to_string())
}

fn begun(claim: &PersistentVolumeClaim, now: Timestamp) -> Action {
    let mut begun = claim.clone();
    let status = begun.status.get_or_insert_default();
    status.allocated_resources = Some(BTreeMap::from([(STORAGE.to_owned(), wanted(claim))]));
    status.allocated_resource_statuses = Some(BTreeMap::from([(STORAGE.to_owned(), IN_PROGRESS.to_owned())]));
    claims::set_condition(status, RESIZING, now);
    Action::update_status(&begun)
}

fn grown(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> Action {
    let mut grown = volume.clone();
    let capacity = grown.spec.get_or_insert_default().capacity.get_or_insert_default();
    capacity.insert(STORAGE.to_owned(), wanted(claim));
    Action::update(&grown)
}

fn finished(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Action {
    let mut finished = claim.clone();
    let status = finished.status.get_or_insert_default();
    let size = Quantity(volumes::capacity(volume).to_string());
    status.capacity.get_or_insert_default().insert(STORAGE.to_owned(), size);
    if let Some(statuses) = &mut status.allocated_resource_statuses {
        statuses.remove(STORAGE);
    }
    claims::remove_conditions(status, &[RESIZING, "FileSystemResizePending"]);
    Action::update_status(&finished)
}

/// The program that resizes volumes.
pub struct Resizer(pub Driver);

impl Reconciler for Resizer {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let Self(driver) = self;
        let claim = driver.claims.by_key(key)?;
        let volume = driver.volumes.get("", claims::volume_name(&claim))?;
        is_due(&claim, &volume).then(|| Observed {
            latency: driver.parameters_of(&volume).latency,
            call: driver.calls.get(claim.uid()),
            claim,
            volume,
        })
    }

    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        self.0.step(actor, observed.claim.uid(), plan).await
    }
}

#[cfg(test)]
mod tests {
    use super::super::DRIVER;
    use super::*;
    use crate::volume::fixture::{claim, completed, refer, size, volume};
    use controller_base::fixture::at;
    use expect_test::expect;

    fn bound(requested: &str) -> PersistentVolumeClaim {
        let mut claim = completed(claim("c", Some("standard")), "v");
        let requests = claim.spec.get_or_insert_default().resources.get_or_insert_default();
        requests.requests = Some(size(requested));
        let status = claim.status.get_or_insert_default();
        (status.phase, status.capacity) = (Some("Bound".to_owned()), Some(size("1Gi")));
        claim
    }

    fn ours(capacity: &str) -> PersistentVolume {
        let mut volume = refer(volume("v", capacity, "standard"), "c", "uid-c");
        volume.spec.as_mut().unwrap().csi.as_mut().unwrap().driver = DRIVER.to_owned();
        volume
    }

    #[test]
    fn only_a_claim_that_asks_for_more_is_due() {
        assert!(is_due(&bound("2Gi"), &ours("1Gi")));
        assert!(!is_due(&bound("1Gi"), &ours("1Gi")) && !is_due(&bound("2Gi"), &volume("v", "1Gi", "standard")));
        let other = refer(ours("1Gi"), "c", "uid-other");
        assert!(!is_due(&bound("2Gi"), &other));
    }

    #[test]
    fn a_claim_grows_step_by_step() {
        let round = |claim: &PersistentVolumeClaim, volume: PersistentVolume| {
            let call = Call::default();
            let (claim, volume) = (Arc::new(claim.clone()), Arc::new(volume));
            plan(&Observed { claim, volume, latency: Duration::ZERO, call }, at(0))
        };
        let claim = bound("2Gi");
        let begun = round(&claim, ours("1Gi"));
        expect![[r#"
            update persistentvolumeclaims/status default/c {"allocatedResourceStatuses":{"storage":"ControllerResizeInProgress"},"allocatedResources":{"storage":"2Gi"},"capacity":{"storage":"1Gi"},"conditions":[{"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"Resizing"}],"phase":"Bound"}
            event Normal Resizing PersistentVolumeClaim default/c: External resizer is resizing volume v
        "#]]
        .assert_eq(&begun.to_string());
        let Action::UpdateStatus { object, .. } = &begun.actions[0] else { panic!("{begun}") };
        let claim = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
        let grown = round(&claim, ours("1Gi"));
        let Action::Update { object, .. } = &grown.actions[0] else { panic!("{grown}") };
        assert_eq!(object["spec"]["capacity"]["storage"], "2Gi");
        expect![[r#"
            update persistentvolumeclaims/status default/c {"allocatedResourceStatuses":{},"allocatedResources":{"storage":"2Gi"},"capacity":{"storage":"2Gi"},"conditions":[],"phase":"Bound"}
            event Normal VolumeResizeSuccessful PersistentVolumeClaim default/c: Resize volume succeeded
        "#]]
        .assert_eq(&round(&claim, ours("2Gi")).to_string());
    }
}
