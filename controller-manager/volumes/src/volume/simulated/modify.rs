//! What the driver does about a bound claim that asks for another VolumeAttributesClass. A simulated volume takes any
//! parameters.
//!
//! Corresponds to pkg/modifycontroller of the external-resizer.

use super::DRIVER;
use super::call::Call;
use super::driver::{Driver, has_our_source};
use crate::volume::{claims, volumes};
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Plan};
use controller_base::actions;
use controller_base::context::Actor;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::{ModifyVolumeStatus, PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::VolumeAttributesClass;
use std::sync::Arc;
use std::time::Duration;

const PENDING: &str = "Pending";
const IN_PROGRESS: &str = "InProgress";
const MODIFYING: &str = "ModifyingVolume";

/// The program that gives volumes other attributes.
pub struct Modifier(pub Driver);

#[derive(Debug)]
pub struct Observed {
    claim: Arc<PersistentVolumeClaim>,
    volume: Arc<PersistentVolume>,
    /// The class that the claim asks for.
    class: Option<Arc<VolumeAttributesClass>>,
    latency: Duration,
    call: Call,
}

/// Returns the class that a claim asks for and does not have; `None` if there is nothing to change.
pub fn target(claim: &PersistentVolumeClaim) -> Option<&str> {
    let current = claim.status.as_ref().and_then(|status| status.current_volume_attributes_class_name.as_deref());
    let asked = claims::attributes_class(claim);
    (claims::phase(claim) == volumes::BOUND && !asked.is_empty() && current != Some(asked)).then_some(asked)
}

/// Plans the next of three steps: the claim's status says what begins, the volume gets the class, the claim has it.
fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let (claim, volume) = (&*observed.claim, &*observed.volume);
    let Some(target) = target(claim) else { return Plan::default() };
    if volumes::attributes_class(volume) == target {
        let message = format!("external resizer modified volume {} with vac {target} successfully", volume.name());
        return Plan::of([modified(claim, target), actions::normal(claim, "VolumeModifySuccessful", message)]);
    }
    let unfit = match &observed.class {
        None => Some(format!("VAC {target} does not exist.")),
        Some(class) if class.driver_name != DRIVER => {
            Some(format!("VAC {target} has the driver {}.", class.driver_name))
        }
        Some(_) => None,
    };
    if let Some(why) = unfit {
        let status = with_status(claim, target, PENDING, now);
        let event = status.is_some().then(|| actions::warning(claim, "VolumeModifyFailed", why));
        return Plan::of(status.into_iter().chain(event));
    }
    if let Some(status) = with_status(claim, target, IN_PROGRESS, now) {
        let message = format!("external resizer is modifying volume {} with vac {target}", volume.name());
        return Plan::of([status, actions::normal(claim, "VolumeModify", message)]);
    }
    observed.call.wait(observed.latency, now).unwrap_or_else(|| {
        let mut given = volume.clone();
        given.spec.get_or_insert_default().volume_attributes_class_name = Some(target.to_owned());
        Plan::of([Action::update(&given)])
    })
}

/// Plans the status that says how far the change is; `None` if the claim has it.
fn with_status(claim: &PersistentVolumeClaim, target: &str, state: &str, now: Timestamp) -> Option<Action> {
    let mut changed = claim.clone();
    let status = changed.status.get_or_insert_default();
    status.modify_volume_status = Some(ModifyVolumeStatus {
        status: state.to_owned(),
        target_volume_attributes_class_name: Some(target.to_owned()),
    });
    if state == IN_PROGRESS {
        claims::set_condition(status, MODIFYING, now);
    }
    (changed.status != claim.status).then(|| Action::update_status(&changed))
}

fn modified(claim: &PersistentVolumeClaim, target: &str) -> Action {
    let mut modified = claim.clone();
    let status = modified.status.get_or_insert_default();
    status.current_volume_attributes_class_name = Some(target.to_owned());
    status.modify_volume_status = None;
    claims::remove_conditions(status, &[MODIFYING, "ModifyVolumeError"]);
    Action::update_status(&modified)
}

impl Reconciler for Modifier {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Observed> {
        let Self(driver) = self;
        let claim = driver.claims.by_key(key)?;
        let class = driver.attributes_classes.get("", target(&claim)?);
        let volume = driver.volumes.get("", claims::volume_name(&claim))?;
        let is_ours = has_our_source(&volume) && volumes::claim_uid(&volume) == claim.uid();
        is_ours.then(|| Observed {
            latency: driver.parameters_of(&volume).latency,
            call: driver.calls.get(claim.uid()),
            class,
            claim,
            volume,
        })
    }

    fn plan(&self, observed: &Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _: &str, observed: &Observed, plan: &Plan) -> Result<(), ApplyError> {
        self.0.step(actor, observed.claim.uid(), plan).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::{claim, completed, refer, volume};
    use controller_base::fixture::at;
    use proto::kinds::metav1::ObjectMeta;

    #[test]
    fn a_claim_gets_the_class_that_it_asks_for() {
        let mut asking = completed(claim("c", Some("standard")), "v");
        assert_eq!(target(&asking), None);
        asking.spec.get_or_insert_default().volume_attributes_class_name = Some("fast".to_owned());
        assert_eq!(target(&asking), None, "it is not bound yet");
        asking.status.get_or_insert_default().phase = Some("Bound".to_owned());
        let class = |driver: &str| VolumeAttributesClass {
            metadata: ObjectMeta { name: Some("fast".to_owned()), ..ObjectMeta::default() },
            driver_name: driver.to_owned(),
            parameters: None,
        };
        let round = |claim: &PersistentVolumeClaim, volume: PersistentVolume, class: Option<VolumeAttributesClass>| {
            plan(
                &Observed {
                    claim: Arc::new(claim.clone()),
                    volume: Arc::new(volume),
                    class: class.map(Arc::new),
                    latency: Duration::ZERO,
                    call: Call::default(),
                },
                at(0),
            )
        };
        let mut held = refer(volume("v", "1Gi", "standard"), "c", "uid-c");
        let missing = round(&asking, held.clone(), None);
        assert!(
            missing
                .to_string()
                .ends_with("VolumeModifyFailed PersistentVolumeClaim default/c: VAC fast does not exist.\n")
        );
        let foreign = round(&asking, held.clone(), Some(class("disks.example.com")));
        assert!(foreign.to_string().contains("VAC fast has the driver disks.example.com."), "{foreign}");
        let begun = round(&asking, held.clone(), Some(class(DRIVER)));
        let Action::UpdateStatus { object, .. } = &begun.actions[0] else { panic!("{begun}") };
        let asking = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
        assert_eq!(object["status"]["modifyVolumeStatus"]["status"], "InProgress");
        let given = round(&asking, held.clone(), Some(class(DRIVER)));
        assert_eq!(given.to_string(), "update persistentvolumes v\n");
        held.spec.get_or_insert_default().volume_attributes_class_name = Some("fast".to_owned());
        let finished = round(&asking, held.clone(), Some(class(DRIVER)));
        let Action::UpdateStatus { object, .. } = &finished.actions[0] else { panic!("{finished}") };
        let has = PersistentVolumeClaim::decode_value(object.clone()).unwrap();
        assert_eq!((target(&has), &object["status"]["conditions"]), (None, &serde_json::json!([])));
    }
}
