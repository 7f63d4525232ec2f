//! What becomes of a claim: it is bound, asks for a volume, waits, or has lost its volume.
//!
//! Corresponds to syncClaim in pkg/controller/volume/persistentvolume/pv_controller.go.

use super::bind::{bind, unbound_status};
use super::provisioning;
use crate::volume::{claims, volumes};
use client::{Action, Plan};
use component_helpers::volumes::annotations::{BOUND_BY_CONTROLLER, SELECTED_NODE, has_annotation};
use component_helpers::volumes::matching;
use controller_base::actions;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::StorageClass;
use std::sync::Arc;

const PENDING: &str = "Pending";
const LOST: &str = "Lost";
const NO_VOLUME: &str = "no persistent volumes available for this claim and no storage class is set";

#[derive(Debug)]
pub struct Observed {
    pub claim: Arc<PersistentVolumeClaim>,
    /// The volume that the claim names.
    pub named: Option<Arc<PersistentVolume>>,
    /// The volumes that a claim without a name may get: free ones of its class, and those that refer to it.
    pub candidates: Vec<Arc<PersistentVolume>>,
    /// The class that the claim names.
    pub class: Option<Arc<StorageClass>>,
    /// The class of claims that name none.
    pub default_class: Option<String>,
    /// Pods with this claim that have no node yet.
    pub unscheduled_pods: Vec<String>,
    pub enable_dynamic_provisioning: bool,
}

pub fn plan(observed: &Observed) -> Plan {
    let claim = &*observed.claim;
    match (claims::is_bind_completed(claim), claims::volume_name(claim)) {
        (true, name) => completed(claim, name, observed.named.as_deref()),
        (false, "") => nameless(observed),
        (false, name) => naming(claim, name, observed.named.as_deref()),
    }
}

/// Plans for a claim that takes any volume.
fn nameless(observed: &Observed) -> Plan {
    let claim = &*observed.claim;
    let waits = claims::waits_for_consumer(observed.class.as_deref());
    if let Some(volume) = matching::best(claim, &observed.candidates, waits) {
        return bind(volume, claim);
    }
    if let Some(class) = observed.default_class.as_ref().filter(|_| !claims::names_class(claim)) {
        let mut with_class = claim.clone();
        with_class.spec.get_or_insert_default().storage_class_name = Some(class.clone());
        return Plan::of([Action::update(&with_class)]);
    }
    if waits && !has_annotation(claim, SELECTED_NODE) {
        let (reason, message) = waiting(&observed.unscheduled_pods);
        return pending(claim, actions::normal(claim, reason, message));
    }
    match claims::class(claim) {
        "" => pending(claim, actions::normal(claim, "FailedBinding", NO_VOLUME)),
        _ if observed.enable_dynamic_provisioning => provisioning::plan(claim, observed.class.as_deref()),
        _ => Plan::default(),
    }
}

/// Plans for a claim that asks for one volume by name.
///
/// Deviation: Kubernetes says nothing about a claim that names a volume which is not there.
fn naming(claim: &PersistentVolumeClaim, name: &str, volume: Option<&PersistentVolume>) -> Plan {
    let Some(volume) = volume else {
        let message = format!("volume {name:?} not found");
        return pending(claim, actions::normal(claim, "FailedBinding", message));
    };
    if volumes::is_bound_to(volume, claim) {
        return bind(volume, claim);
    }
    if volumes::claim_ref(volume).is_some() {
        let message = format!("volume {name:?} already bound to a different claim.");
        let event = actions::warning(claim, "FailedBinding", message);
        // The controller's own choice is not taken back: somebody has removed the mark of a complete binding.
        return if has_annotation(claim, BOUND_BY_CONTROLLER) { Plan::of([event]) } else { pending(claim, event) };
    }
    match matching::mismatch(volume, claim) {
        None => bind(volume, claim),
        Some(why) => {
            let message = format!("Cannot bind to requested volume {name:?}: {why}");
            pending(claim, actions::warning(claim, "VolumeMismatch", message))
        }
    }
}

/// Plans for a claim that was bound completely: its volume has to be there, and to refer to it.
fn completed(claim: &PersistentVolumeClaim, name: &str, volume: Option<&PersistentVolume>) -> Plan {
    let lost = |reason, message| {
        let status = unbound_status(claim, LOST);
        let event = status.is_some().then(|| actions::warning(claim, reason, message));
        Plan::of(status.into_iter().chain(event))
    };
    if name.is_empty() {
        return lost("ClaimLost", "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!");
    }
    let Some(volume) = volume else {
        return lost("ClaimLost", "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    };
    if volumes::claim_ref(volume).is_none() || volumes::claim_uid(volume) == claim.uid() {
        return bind(volume, claim);
    }
    lost("ClaimMisbound", "Two claims are bound to the same volume, this one is bound incorrectly")
}

fn waiting(unscheduled_pods: &[String]) -> (&'static str, String) {
    match unscheduled_pods {
        [] => ("WaitForFirstConsumer", "waiting for first consumer to be created before binding".to_owned()),
        [pod] => ("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
        pods => ("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(","))),
    }
}

fn pending(claim: &PersistentVolumeClaim, event: Action) -> Plan {
    Plan::of([event].into_iter().chain(unbound_status(claim, PENDING)))
}
