//! What the driver does about a volume that it made: it deletes a released one, and keeps the finalizer that waits for it.
//!
//! Corresponds to deleteVolumeOperation in controller/controller.go of sig-storage-lib-external-provisioner.

use super::call::Call;
use super::driver::Driver;
use super::parameters::Parameters;
use super::{FINALIZER, PROVISIONER};
use crate::volume::volumes;
use client::reconcile::Reconciler;
use client::{Action, ApplyError, Client, Plan, ReconcileError, apply};
use component_helpers::volumes::annotations::{PROVISIONED_BY, annotation};
use component_helpers::volumes::volume_files;
use controller_base::actions;
use controller_base::context::Actor;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use std::sync::Arc;

#[derive(Debug)]
pub struct Observed {
    pub volume: Arc<PersistentVolume>,
    /// What the volume's class says; the defaults if the class is gone or cannot be read.
    pub parameters: Parameters,
    /// A random number from 0 to 1, which decides whether the call fails.
    pub draw: f64,
    /// Why the storage system could not delete the files.
    pub failure: Option<String>,
    pub call: Call,
}

pub fn is_ours(volume: &PersistentVolume) -> bool {
    annotation(volume, PROVISIONED_BY) == Some(PROVISIONER)
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let volume = &*observed.volume;
    if let Some(action) = finalizer(volume) {
        return Plan::of([action]);
    }
    if !has_finalizer(volume) || volumes::phase(volume) != volumes::RELEASED {
        return Plan::default();
    }
    if observed.call.is_over() {
        return Plan::of([gone(volume)]);
    }
    if let Some(wait) = observed.call.wait(observed.parameters.latency, now) {
        return wait;
    }
    let fault = (observed.draw < observed.parameters.deletion_faults).then_some("simulated fault");
    if let Some(why) = observed.failure.as_deref().or(fault) {
        let message = format!("rpc error: code = Internal desc = {why}");
        let mut plan = Plan::of([actions::warning(volume, "VolumeFailedDelete", message)]);
        plan.requeue_within(observed.call.next_retry());
        return plan;
    }
    Plan::of([gone(volume)])
}

/// Returns true if a round calls the driver, and does not only bring the finalizer up to date.
fn is_call(volume: &PersistentVolume) -> bool {
    finalizer(volume).is_none()
}

fn has_finalizer(volume: &PersistentVolume) -> bool {
    volume.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Makes the finalizer follow the policy: nobody waits for the driver where it deletes nothing.
fn finalizer(volume: &PersistentVolume) -> Option<Action> {
    let is_deleted_by_driver = volumes::reclaim_policy(volume) == "Delete";
    let mut changed = volume.clone();
    match (is_deleted_by_driver, has_finalizer(volume)) {
        (true, false) if !volume.is_deleting() => {
            changed.metadata.finalizers.get_or_insert_default().push(FINALIZER.to_owned());
        }
        (false, true) => remove_finalizer(&mut changed),
        _ => return None,
    }
    Some(Action::update(&changed))
}

fn remove_finalizer(volume: &mut PersistentVolume) {
    volume.metadata.finalizers.iter_mut().for_each(|all| all.retain(|finalizer| finalizer != FINALIZER));
}

/// Deletes the object of a volume that is no more; if it is being deleted, lets it go.
fn gone(volume: &PersistentVolume) -> Action {
    if !volume.is_deleting() {
        return actions::delete_exactly(volume);
    }
    let mut free = volume.clone();
    remove_finalizer(&mut free);
    Action::update(&free)
}

/// The program that deletes volumes.
pub struct Deleter(pub Driver);

impl Reconciler for Deleter {
    type Observed = Observed;

    fn observe(&self, key: &str) -> Option<Self::Observed> {
        let volume = self.0.volumes.by_key(key).filter(|volume| is_ours(volume))?;
        let call = self.0.calls.get(volume.uid());
        Some(Observed { parameters: self.0.parameters_of(&volume), draw: 1.0, failure: None, call, volume })
    }

    /// Draws whether the call fails, and lets the storage system delete the files of a volume that is to go now.
    async fn consult(
        &self,
        client: &Client,
        mut observed: Self::Observed,
    ) -> Result<Option<Self::Observed>, ReconcileError> {
        if observed.parameters.deletion_faults > 0.0 {
            observed.draw = self.0.faults.unit();
        }
        let goes = |action: &Action| action.gvr() == Some(&PersistentVolume::gvr());
        if is_call(&observed.volume) && plan(&observed, client.env().wall()).actions.iter().any(goes) {
            let deleted = self.0.storage.delete(&volume_files::name_of(&observed.volume)).await;
            observed.failure = deleted.err().map(|error| error.to_string());
        }
        Ok(Some(observed))
    }

    fn plan(&self, observed: &Self::Observed, now: Timestamp) -> Plan {
        plan(observed, now)
    }

    async fn apply(&self, actor: &Actor, _: &str, observed: &Self::Observed, plan: &Plan) -> Result<(), ApplyError> {
        let (driver, volume) = (&self.0, &observed.volume);
        if !is_call(volume) {
            return apply(&actor.client, &actor.recorder, plan).await.map(drop);
        }
        driver.apply(actor, volume.uid(), plan).await?;
        if driver.volumes.get("", volume.name()).is_none() {
            driver.calls.forget(volume.uid());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volume::fixture::{in_phase, refer, volume};
    use controller_base::fixture::{annotate, at, time};
    use std::time::Duration;

    fn released(policy: &str, has_finalizer: bool, is_deleting: bool) -> PersistentVolume {
        let mut made = in_phase(refer(volume("v", "1Gi", ""), "c", "uid-c"), "Released");
        annotate(&mut made, &[(PROVISIONED_BY, PROVISIONER)]);
        made.spec.get_or_insert_default().persistent_volume_reclaim_policy = Some(policy.to_owned());
        made.metadata.finalizers = has_finalizer.then(|| vec!["a/b".to_owned(), FINALIZER.to_owned()]);
        made.metadata.deletion_timestamp = is_deleting.then(|| time(1));
        made
    }

    fn round(volume: PersistentVolume, parameters: Parameters) -> String {
        show(Observed { volume: Arc::new(volume), parameters, draw: 0.5, failure: None, call: Call::default() })
    }

    fn show(observed: Observed) -> String {
        let plan = plan(&observed, at(0));
        let finalizers = plan.actions.iter().filter_map(|action| match action {
            Action::Update { object, .. } => Some(object["metadata"]["finalizers"].to_string()),
            _ => None,
        });
        let finalizers: String = finalizers.collect();
        plan.to_string() + &finalizers
    }

    #[test]
    fn a_released_volume_goes_and_no_other() {
        let delete = "delete persistentvolumes v uid=uid-v\n";
        let update = "update persistentvolumes v\n";
        for (volume, expected) in [
            (released("Delete", true, false), delete.to_owned()),
            (released("Delete", true, true), format!("{update}[\"a/b\"]")),
            (in_phase(released("Delete", true, false), "Bound"), String::new()),
            (in_phase(released("Delete", true, true), "Bound"), String::new()),
            (released("Retain", false, false), String::new()),
            (released("Retain", true, true), format!("{update}[\"a/b\"]")),
            (released("Delete", false, false), format!("{update}[\"{FINALIZER}\"]")),
            (released("Delete", false, true), String::new()),
        ] {
            assert_eq!(round(volume.clone(), Parameters::default()), expected, "{volume:?}");
        }
    }

    #[test]
    fn a_deletion_takes_its_time_and_may_fail() {
        let slow = Parameters { latency: Duration::from_secs(3), ..Parameters::default() };
        assert_eq!(round(released("Delete", true, false), slow), "look again after 3s\n");
        let faulty = Parameters { deletion_faults: 0.9, ..Parameters::default() };
        let expected = "event Warning VolumeFailedDelete PersistentVolume v: rpc error: code = Internal desc = simulated \
                        fault\nlook again after 1s\n";
        assert_eq!(round(released("Delete", true, false), faulty), expected);
        let failed = Observed {
            volume: Arc::new(released("Delete", true, false)),
            parameters: Parameters::default(),
            draw: 0.5,
            failure: Some("Read-only file system (os error 30)".to_owned()),
            call: Call::default(),
        };
        let expected = "event Warning VolumeFailedDelete PersistentVolume v: rpc error: code = Internal desc = Read-only \
                        file system (os error 30)\nlook again after 1s\n";
        assert_eq!(show(failed), expected);
    }
}
