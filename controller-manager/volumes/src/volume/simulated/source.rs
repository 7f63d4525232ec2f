//! What a claim's volume begins with: nothing, or the data of another claim.
//!
//! Corresponds to prepareProvision, checkDriverCapabilities and getPVCSource in pkg/controller/controller.go of the
//! external-provisioner.

use super::DRIVER;
use crate::volume::{claims, volumes};
use client::Lister;
use component_helpers::volumes::volume_files;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::sync::Arc;

const SNAPSHOT_GROUP: &str = "snapshot.storage.k8s.io";

/// What a claim names as the source of its data.
#[derive(Debug, Default)]
pub enum Source {
    #[default]
    Nothing,
    Claim(CloneSource),
    Snapshot,
    /// An object for which somebody else makes volumes.
    Populator,
}

/// The claim to clone, as the caches have it.
#[derive(Debug, Default)]
pub struct CloneSource {
    pub name: String,
    pub claim: Option<Arc<PersistentVolumeClaim>>,
    pub volume: Option<Arc<PersistentVolume>>,
    /// False where the driver cannot clone.
    pub can_clone: bool,
    /// Why the files could not be copied.
    pub failure: Option<String>,
}

impl Source {
    pub fn observe(
        claim: &PersistentVolumeClaim,
        claims: &Lister<PersistentVolumeClaim>,
        volumes: &Lister<PersistentVolume>,
        can_clone: bool,
    ) -> Self {
        let Some(spec) = &claim.spec else { return Self::Nothing };
        let reference = spec.data_source_ref.as_ref().map(|source| (&source.api_group, &source.kind, &source.name));
        let source = spec.data_source.as_ref().map(|source| (&source.api_group, &source.kind, &source.name));
        let Some((group, kind, name)) = reference.or(source) else { return Self::Nothing };
        match (group.as_deref().unwrap_or_default(), kind.as_str()) {
            ("", PersistentVolumeClaim::KIND) => {
                let found = claims.get(claim.namespace(), name);
                let volume = found.as_ref().and_then(|found| volumes.get("", claims::volume_name(found)));
                Self::Claim(CloneSource { name: name.clone(), claim: found, volume, can_clone, failure: None })
            }
            (SNAPSHOT_GROUP, "VolumeSnapshot") => Self::Snapshot,
            _ => Self::Populator,
        }
    }

    /// Returns the name of the files that the volume begins with, or why it cannot be made.
    pub fn files(&self, claim: &PersistentVolumeClaim) -> Result<Option<String>, String> {
        match self {
            Self::Nothing | Self::Populator => Ok(None),
            Self::Snapshot => Err(not_supported("snapshot restore", "CREATE_DELETE_SNAPSHOT")),
            Self::Claim(source) if !source.can_clone => Err(not_supported("clone operations", "CLONE_VOLUME")),
            Self::Claim(source) => match source.files(claim) {
                Ok(files) => Ok(Some(files)),
                Err(why) => {
                    let name = &source.name;
                    Err(format!("error getting handle for DataSource Type PersistentVolumeClaim by Name {name}: {why}"))
                }
            },
        }
    }
}

fn not_supported(what: &str, capability: &str) -> String {
    format!("CSI driver does not support {what}: controller {capability} capability is not reported")
}

impl CloneSource {
    fn files(&self, claim: &PersistentVolumeClaim) -> Result<String, String> {
        let name = &self.name;
        let Some(source) = &self.claim else {
            let namespace = claim.namespace();
            let missing = format!("persistentvolumeclaim {name:?} not found");
            return Err(format!("error getting PVC {name} (namespace {namespace:?}) from api server: {missing}"));
        };
        let phase = claims::phase(source);
        if phase != volumes::BOUND {
            return Err(format!("the PVC DataSource {name} must have a status of Bound.  Got {phase}"));
        }
        if source.is_deleting() {
            return Err(format!("the PVC DataSource {name} is currently being deleted"));
        }
        let (requested, size) = (claims::requested(claim), claims::requested(source));
        if requested < size {
            let (requested, size) = (requested.value(), size.value());
            return Err(format!(
                "error, new PVC request must be greater than or equal in size to the specified PVC data source, \
                 requested {requested} but source is {size}"
            ));
        }
        let is_of_claim = |volume: &&Arc<PersistentVolume>| {
            let handled = volume.spec.as_ref().and_then(|spec| spec.csi.as_ref());
            handled.is_some_and(|csi| csi.driver == DRIVER) && volumes::claim_uid(volume) == source.uid()
        };
        let Some(volume) = self.volume.as_ref().filter(is_of_claim) else {
            return Err("claim in dataSource not bound or invalid".to_owned());
        };
        let (of_source, of_claim) = (claims::volume_mode(source), claims::volume_mode(claim));
        if of_source != of_claim {
            return Err(format!(
                "the source PVC and destination PVCs must have the same volume mode for cloning.  Source is {of_source}, \
                 but new PVC requested {of_claim}"
            ));
        }
        Ok(volume_files::name_of(volume))
    }
}
