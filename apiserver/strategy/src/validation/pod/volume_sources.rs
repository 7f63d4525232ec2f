//! Validates the sources of a pod's volumes: exactly one for each volume, and the kinds that only pods have.
//!
//! Corresponds to validateVolumeSource.

use super::projected::{downward_items, key_paths, mode, projected};
use crate::validation::paths::descending;
use crate::validation::volume_sources;
use crate::validation::volume_sources::{only_source, require};
use crate::validation::{object_meta, storage};
use field_checks::at::{At, Errors};
use proto::meta::names;
use proto::meta::quantity::Quantity;

pub const PULL_POLICIES: &[&str] = &["Always", "IfNotPresent", "Never"];

/// All kinds of sources, in the order in which Kubernetes checks them.
const KINDS: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];

pub fn validate(volume: &At<'_>, pod: Option<&str>, errors: &mut Errors) {
    let mut found = false;
    for kind in KINDS {
        if let Some(source) = only_source(volume, kind, found, errors) {
            found = true;
            details(kind, &source, errors);
            in_pod_or_template(kind, volume, &source, pod, errors);
        }
        // A second source has to obey this rule, too.
        let (name, source) = (volume.field("name"), volume.field(kind));
        if *kind == "iscsi" && volume_sources::has_long_portal(name.text(), &source) {
            errors.push(name.invalid_text(volume_sources::LONG_PORTAL));
        }
    }
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

/// Checks the parts of a source whose rules differ between pods and templates. `pod` is the name of a pod.
fn in_pod_or_template(kind: &str, volume: &At<'_>, source: &At<'_>, pod: Option<&str>, errors: &mut Errors) {
    let name = volume.field("name");
    match (kind, pod) {
        ("image", _) => {
            // A template may leave the reference out.
            if pod.is_some() {
                require(source, &["reference"], errors);
            }
            source.field("pullPolicy").check_enum(PULL_POLICIES, errors);
        }
        ("ephemeral", Some(pod)) if !name.is_empty() => {
            let claim = format!("{pod}-{}", name.text());
            for complaint in names::dns1123_subdomain(&claim) {
                errors.push(name.invalid(format!("PVC name {claim:?}: {complaint}")));
            }
        }
        _ => {}
    }
}

/// Checks the fields of a source by its kind.
fn details(kind: &str, source: &At<'_>, errors: &mut Errors) {
    match kind {
        "emptyDir" => {
            let negative = Quantity::try_from(source.field("sizeLimit").value).is_ok_and(|limit| limit.signum() < 0);
            if negative {
                let why = "SizeLimit field must be a valid resource quantity";
                errors.push(source.field("sizeLimit").forbidden(why));
            }
        }
        "secret" | "configMap" => {
            require(source, &[if kind == "secret" { "secretName" } else { "name" }], errors);
            mode(&source.field("defaultMode"), errors);
            key_paths(&source.field("items"), errors);
        }
        "gitRepo" => {
            require(source, &["repository"], errors);
            descending(&source.field("directory"), errors);
        }
        "iscsi" => volume_sources::iscsi(source, None, errors),
        "persistentVolumeClaim" => require(source, &["claimName"], errors),
        "downwardAPI" => {
            mode(&source.field("defaultMode"), errors);
            downward_items(source, errors);
        }
        "projected" => projected(source, errors),
        "csi" => csi(source, errors),
        "ephemeral" => {
            require(source, &["volumeClaimTemplate"], errors);
            if source.field("volumeClaimTemplate").is_set() {
                claim_template(&source.field("volumeClaimTemplate"), errors);
            }
        }
        _ => volume_sources::validate(kind, source, errors),
    }
}

fn csi(source: &At<'_>, errors: &mut Errors) {
    storage::csi_driver_name(&source.field("driver"), errors);
    let secret = source.field("nodePublishSecretRef");
    if secret.is_set() && secret.field("name").is_empty() {
        errors.push(secret.field("name").required(""));
    } else if secret.is_set() {
        // As in Kubernetes, the path is that of the source's name.
        At::new(source.path_of("name"), secret.field("name").value).check(names::dns1123_subdomain, errors);
    }
}

/// Checks that the claim template of an ephemeral volume has no metadata but labels and annotations.
fn claim_template(template: &At<'_>, errors: &mut Errors) {
    let meta = template.field("metadata");
    object_meta::validate_annotations(&meta.field("annotations"), errors);
    meta.field("labels").check_labels(errors);
    const REFUSED: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
    ];
    for field in REFUSED.into_iter().filter(|field| !meta.field(field).is_empty()) {
        errors.push(meta.field(field).forbidden("cannot be set"));
    }
    storage::claim_spec(&template.field("spec"), errors);
}
