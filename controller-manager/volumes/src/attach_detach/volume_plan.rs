//! Plans the attachments of one volume: which are missing, which have to go, and which fail.
//!
//! Corresponds to reconcile and attachDesiredVolumes in pkg/controller/volume/attachdetach/reconciler.

use super::attachment;
use super::multi_attach::{is_exclusive, message};
use super::place::Place;
use client::{Action, Plan};
use controller_base::{actions, clock};
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::kinds::api::storage::v1::VolumeAttachment;
use std::sync::Arc;

/// Reason of the events about volumes that cannot be attached.
pub const FAILED: &str = "FailedAttachVolume";

/// A volume on all nodes that it concerns.
#[derive(Clone, Debug)]
pub struct Observed {
    pub persistent_volume: Arc<PersistentVolume>,
    /// By the name of the node.
    pub places: Vec<Place>,
    /// True if volumes are taken from unhealthy nodes after a time.
    pub forces_detach: bool,
    /// True if a reported volume without an attachment is not believed.
    pub verifies: bool,
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut held: Vec<&Place> = observed.places.iter().filter(|place| place.is_held()).collect();
    for place in &observed.places {
        let Some(attachment) = &place.attachment else {
            if place.is_wanted() && place.is_managed() && attach(observed, place, &held, &mut plan) {
                held.push(place);
            }
            continue;
        };
        match place.is_wanted() {
            true => report_failure(observed, place, now, &mut plan),
            false => detach(observed, place, attachment, now, &mut plan),
        }
    }
    plan
}

/// Deletes the attachment once the volume may leave and the node's status no longer lists it.
fn detach(observed: &Observed, place: &Place, attachment: &Arc<VolumeAttachment>, now: Timestamp, plan: &mut Plan) {
    let departure = place.departure(observed.forces_detach);
    departure.wait(now).into_iter().for_each(|wait| plan.requeue_within(wait));
    if departure.is_due(now) && !place.is_reported() && !attachment.is_deleting() {
        plan.push(actions::delete_exactly(&**attachment));
    }
}

/// Creates the attachment, unless another node has the volume for itself. Returns true if it did.
fn attach(observed: &Observed, place: &Place, held: &[&Place], plan: &mut Plan) -> bool {
    if place.is_reported() && !observed.verifies {
        return false;
    }
    let volume = &*observed.persistent_volume;
    let others: Vec<&Place> = held.iter().copied().filter(|other| other.node_name != place.node_name).collect();
    if is_exclusive(volume) && !others.is_empty() {
        if !place.reports.multi_attach {
            let event = |pod| actions::warning(pod, FAILED, message(volume, pod, &others));
            plan.actions.extend(place.pods.iter().map(|pod| event(&**pod)));
        }
        return false;
    }
    plan.push(Action::create(&attachment::new(&place.volume, volume.name(), &place.node_name)));
    true
}

/// Tells the pods why their volume is not attached, more and more seldom.
fn report_failure(observed: &Observed, place: &Place, now: Timestamp, plan: &mut Plan) {
    let Some(failure) = place.failure() else { return };
    if failure.at > now {
        plan.requeue_within(clock::until(failure.at, now));
        return;
    }
    let volume = observed.persistent_volume.name();
    let text = format!("AttachVolume.Attach failed for volume {volume:?} : {}", failure.message);
    plan.actions.extend(place.pods.iter().map(|pod| actions::warning(&**pod, FAILED, text.as_str())));
    plan.requeue_within(clock::TICK);
}
