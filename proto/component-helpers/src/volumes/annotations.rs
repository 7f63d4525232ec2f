//! Annotations of claims, volumes and classes, by which binder, scheduler and provisioners talk to each other.
//!
//! Corresponds to the constants of k8s.io/component-helpers/storage/volume/pv_helpers.go.

use proto::Kind;

/// On a claim: it was bound completely once. What it then lacks is lost.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// On a claim or volume: the controller chose the other side, and may undo the choice.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// On a claim: the node that the scheduler has chosen for its first consumer.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// On a claim: the provisioner that is to make its volume.
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// The earlier name of the same; both are written.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";
/// On a volume: the provisioner that made it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The class of a claim or volume, from before `storageClassName`. It takes precedence over the field.
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
/// On a class: claims that name no class get this one.
pub const IS_DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
pub const BETA_IS_DEFAULT_CLASS: &str = "storageclass.beta.kubernetes.io/is-default-class";

/// The value of annotations that only have to be there.
pub const YES: &str = "yes";

pub fn annotation<'a, K: Kind>(object: &'a K, key: &str) -> Option<&'a str> {
    object.metadata().annotations.as_ref()?.get(key).map(String::as_str)
}

pub fn has_annotation<K: Kind>(object: &K, key: &str) -> bool {
    annotation(object, key).is_some()
}

pub fn annotate<K: Kind>(object: &mut K, key: &str, value: &str) {
    object.metadata_mut().annotations.get_or_insert_default().insert(key.to_owned(), value.to_owned());
}
