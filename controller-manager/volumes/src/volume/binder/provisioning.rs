//! Asks the provisioner of a claim's class for a volume, by an annotation of the claim.
//!
//! Corresponds to provisionClaim and findProvisionablePlugin in pkg/controller/volume/persistentvolume/pv_controller.go.
//!
//! Deviation: the annotation `pv.kubernetes.io/migrated-to` is not written: no volume is handled by a plugin within the
//! controller manager.

use crate::volume::claims;
use client::{Action, Plan};
use component_helpers::volumes::annotations::{BETA_STORAGE_PROVISIONER, STORAGE_PROVISIONER, annotate, annotation};
use controller_base::actions;
use proto::kinds::api::core::v1::PersistentVolumeClaim;
use proto::kinds::api::storage::v1::StorageClass;

/// Provisioners that were part of Kubernetes, and the drivers that took their place.
const SUCCESSORS: [(&str, &str); 7] = [
    ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    ("kubernetes.io/azure-file", "file.csi.azure.com"),
    ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
];

/// Plans the request to a provisioner: first the annotation, then, when it is there, the event.
pub fn plan(claim: &PersistentVolumeClaim, class: Option<&StorageClass>) -> Plan {
    let failed = |why: String| Plan::of([actions::warning(claim, "ProvisioningFailed", why)]);
    let Some(class) = class else {
        return failed(format!("storageclass.storage.k8s.io {:?} not found", claims::class(claim)));
    };
    let Some(provisioner) = external(&class.provisioner) else {
        return failed(format!("no volume plugin matched name: {}", class.provisioner));
    };
    if annotation(claim, STORAGE_PROVISIONER) == Some(provisioner) {
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system \
             administrator. If volume creation is delayed, please verify that the provisioner is running and correctly \
             registered."
        );
        return Plan::of([actions::normal(claim, "ExternalProvisioning", message)]);
    }
    let mut asking = claim.clone();
    annotate(&mut asking, BETA_STORAGE_PROVISIONER, provisioner);
    annotate(&mut asking, STORAGE_PROVISIONER, provisioner);
    Plan::of([Action::update(&asking)])
}

/// Returns the name under which a program outside of the controller manager provisions; `None` if there is no such program.
fn external(provisioner: &str) -> Option<&str> {
    let successor = SUCCESSORS.iter().find(|(old, _)| *old == provisioner).map(|(_, driver)| *driver);
    successor.or_else(|| (!provisioner.starts_with("kubernetes.io/")).then_some(provisioner))
}
