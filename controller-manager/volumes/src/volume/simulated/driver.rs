//! `Driver`: the caches that the programs of the simulated storage system read, and their calls.
//!
//! Corresponds to the connection to a CSI driver, which the programs of kubernetes-csi share.

use super::call::Calls;
use super::parameters::Parameters;
use super::storage::Storage;
use super::{DRIVER, PROVISIONER};
use crate::volume::volumes;
use client::{ApplyError, Lister, Plan, apply};
use component_base::rng::Random;
use component_helpers::volumes::annotations::{BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER, annotation};
use controller_base::context::Actor;
use controller_base::descriptor::Setup;
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use proto::kinds::api::storage::v1::{StorageClass, VolumeAttributesClass};

pub struct Driver {
    pub claims: Lister<PersistentVolumeClaim>,
    pub volumes: Lister<PersistentVolume>,
    pub classes: Lister<StorageClass>,
    pub attributes_classes: Lister<VolumeAttributesClass>,
    pub nodes: Lister<Node>,
    pub calls: Calls,
    /// Where the files of volumes are.
    pub storage: Storage,
    /// Decides which calls fail.
    pub faults: Random,
}

impl Driver {
    /// Makes the driver of one program, which has calls of its own.
    pub fn new(setup: &Setup<'_>) -> Self {
        Self {
            claims: setup.lister(),
            volumes: setup.lister(),
            classes: setup.lister(),
            attributes_classes: setup.lister(),
            nodes: setup.lister(),
            calls: Calls::default(),
            storage: Storage::new(setup.settings.volume_dir.clone(), setup.env),
            faults: setup.env.random("simulated-storage"),
        }
    }

    /// Returns the parameters of a volume's class; the defaults if it is gone or cannot be read.
    pub fn parameters_of(&self, volume: &PersistentVolume) -> Parameters {
        let class = self.classes.get("", volumes::class(volume));
        class.and_then(|class| Parameters::of(&class).ok()).unwrap_or_default()
    }

    /// Carries a plan out, and records how the call about the object with this uid goes.
    pub async fn apply(&self, actor: &Actor, uid: &str, plan: &Plan) -> Result<(), ApplyError> {
        apply(&actor.client, &actor.recorder, plan).await?;
        self.calls.record(uid, plan, actor.client.env().wall());
        Ok(())
    }

    /// Carries out one of the steps of a change. Only a plan that waits, or that writes the volume, is a call: the steps before
    /// and after it are about the claim's status, and the next call begins anew.
    pub async fn step(&self, actor: &Actor, claim_uid: &str, plan: &Plan) -> Result<(), ApplyError> {
        let writes_volume = plan.actions.iter().any(|action| action.gvr() == Some(&PersistentVolume::gvr()));
        if writes_volume || plan.actions.is_empty() {
            return self.apply(actor, claim_uid, plan).await;
        }
        self.calls.forget(claim_uid);
        apply(&actor.client, &actor.recorder, plan).await.map(drop)
    }
}

/// Returns true if the binder has named this driver as the claim's provisioner.
pub fn asks_us(claim: &PersistentVolumeClaim) -> bool {
    let named = annotation(claim, STORAGE_PROVISIONER).or_else(|| annotation(claim, BETA_STORAGE_PROVISIONER));
    named == Some(PROVISIONER)
}

/// Returns true if the volume is one of the driver's, whoever made its object.
pub fn has_our_source(volume: &PersistentVolume) -> bool {
    volume.spec.as_ref().and_then(|spec| spec.csi.as_ref()).is_some_and(|source| source.driver == DRIVER)
}
