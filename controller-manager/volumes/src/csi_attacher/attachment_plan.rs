//! Plans what a simulated driver does with one VolumeAttachment.
//!
//! Corresponds to csiHandler of external-attacher.

use super::behaviour::{Behaviour, Verb};
use super::finalizer;
use client::{Action, Patch, Plan};
use controller_base::clock;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Debug)]
pub struct Observed {
    pub attachment: Arc<VolumeAttachment>,
    /// The volume to attach; `None` if it does not exist.
    pub volume: Option<Arc<PersistentVolume>>,
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let attachment = &*observed.attachment;
    let is_attached = attachment.status.as_ref().is_some_and(|status| status.attached);
    match attachment.metadata.deletion_timestamp.as_ref() {
        Some(asked) => detach(observed, asked.0, now),
        None if is_attached => Plan::default(),
        None => attach(observed, now),
    }
}

fn attach(observed: &Observed, now: Timestamp) -> Plan {
    let attachment = &*observed.attachment;
    let finalizer = finalizer::name(&attachment.spec.attacher);
    let Some(volume) = &observed.volume else {
        let name = attachment.spec.source.persistent_volume_name.as_deref().unwrap_or_default();
        return fail(attachment, Verb::Attach, &format!("persistentvolume {name:?} not found"), now);
    };
    let mut plan = Plan::default();
    if !finalizer::has(&**volume, &finalizer) {
        if volume.is_deleting() {
            let name = volume.name();
            let why =
                format!("could not add PersistentVolume finalizer: PersistentVolume {name:?} is marked for deletion");
            return fail(attachment, Verb::Attach, &why, now);
        }
        plan.push(finalizer::add(&**volume, &finalizer));
    }
    if !finalizer::has(attachment, &finalizer) {
        plan.push(finalizer::add(attachment, &finalizer));
    }
    let Behaviour { takes, error } = Behaviour::of(volume, Verb::Attach);
    let asked = attachment.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    match (wait(asked, takes, now), error) {
        (Some(wait), _) => plan.requeue_within(wait),
        (None, Some(error)) => plan.actions.extend(fail(attachment, Verb::Attach, &error, now).actions),
        (None, None) => plan.push(patch_status(attachment, json!({"attached": true, "attachError": null}))),
    }
    plan
}

fn detach(observed: &Observed, asked: Timestamp, now: Timestamp) -> Plan {
    let attachment = &*observed.attachment;
    let finalizer = finalizer::name(&attachment.spec.attacher);
    if !finalizer::has(attachment, &finalizer) {
        return Plan::default();
    }
    let volume = observed.volume.as_deref();
    let behaviour = volume.map(|volume| Behaviour::of(volume, Verb::Detach));
    let Behaviour { takes, error } = behaviour.unwrap_or(Behaviour { takes: Duration::ZERO, error: None });
    match (wait(asked, takes, now), error) {
        (Some(wait), _) => Plan { requeue_after: Some(wait), ..Plan::default() },
        (None, Some(error)) => fail(attachment, Verb::Detach, &error, now),
        (None, None) => Plan::of([finalizer::remove(attachment, &finalizer)]),
    }
}

/// Returns the time until a driver is done that was asked at this time; `None` if it is done.
fn wait(asked: Timestamp, takes: Duration, now: Timestamp) -> Option<Duration> {
    let done = asked.saturating_add(takes).unwrap_or(Timestamp::MAX);
    (done > now).then(|| clock::until(done, now))
}

/// Records the error, unless it is recorded already.
fn fail(attachment: &VolumeAttachment, verb: Verb, message: &str, now: Timestamp) -> Plan {
    let status = attachment.status.as_ref();
    let (field, known) = match verb {
        Verb::Attach => ("attachError", status.and_then(|status| status.attach_error.as_ref())),
        Verb::Detach => ("detachError", status.and_then(|status| status.detach_error.as_ref())),
    };
    if known.and_then(|error| error.message.as_deref()) == Some(message) {
        return Plan::default();
    }
    let attached = status.is_some_and(|status| status.attached);
    let error = json!({"message": message, "time": clock::stamp(now)});
    Plan::of([patch_status(attachment, json!({"attached": attached, field: error}))])
}

fn patch_status(attachment: &VolumeAttachment, status: Value) -> Action {
    let patch = json!({"metadata": {"uid": attachment.uid()}, "status": status});
    Action::patch_status::<VolumeAttachment>("", attachment.name(), Patch::Merge(patch))
}
