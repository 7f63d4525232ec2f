//! Indexes over shared informers. Controllers share an index by its name, so a name has one meaning.
//!
//! Corresponds to the indexers of pkg/controller/controller_utils.go (podControllerUID, orphan pods) and
//! pkg/controller/util/node.

use crate::controller_ref::{controller_key, controller_of, owner_key};
use crate::pod;
use client::Informer;
use component_helpers::volumes::pod_volumes;
use proto::Kind;
use proto::kinds::api::apps::v1::ControllerRevision;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::storage::v1::VolumeAttachment;

/// Pods by `Kind/namespace/name` of their controller; pods without a controller by `orphans_key`.
pub const PODS_BY_CONTROLLER: &str = "controller";
/// ControllerRevisions by the same keys.
pub const REVISIONS_BY_CONTROLLER: &str = "controller";
/// Pods by the name of the node that they are assigned to.
pub const PODS_BY_NODE: &str = "node";
/// Pods that have ended by `TERMINAL`, and pods that are being deleted by `DELETING`.
pub const PODS_BY_END: &str = "end";
pub const TERMINAL: &str = "terminal";
pub const DELETING: &str = "deleting";
/// Pods by the keys of the PersistentVolumeClaims that they use.
pub const PODS_BY_CLAIM: &str = "claim";
/// VolumeAttachments by the name of their PersistentVolume.
pub const ATTACHMENTS_BY_VOLUME: &str = "persistentVolume";
/// Objects by the uid of their controller.
pub const BY_CONTROLLER_UID: &str = "controllerUid";

/// Returns the key of the pods or revisions of a namespace that have no controller.
pub fn orphans_key(namespace: &str) -> String {
    owner_key("", namespace, "")
}

pub fn pods_by_controller(pods: &Informer<Pod>) {
    pods.index(PODS_BY_CONTROLLER, |pod| vec![key_of_controller(pod)]);
}

pub fn revisions_by_controller(revisions: &Informer<ControllerRevision>) {
    revisions.index(REVISIONS_BY_CONTROLLER, |revision| vec![key_of_controller(revision)]);
}

fn key_of_controller<K: Kind>(object: &K) -> String {
    controller_key(object).unwrap_or_else(|| orphans_key(object.namespace()))
}

pub fn pods_by_node(pods: &Informer<Pod>) {
    pods.index(PODS_BY_NODE, |pod| {
        let node = pod::node_name(pod);
        if node.is_empty() { Vec::new() } else { vec![node.to_owned()] }
    });
}

pub fn pods_by_end(pods: &Informer<Pod>) {
    pods.index(PODS_BY_END, |pod| {
        let ends = [(TERMINAL, pod::is_terminal(pod)), (DELETING, pod.is_deleting())];
        ends.into_iter().filter(|(_, holds)| *holds).map(|(end, _)| end.to_owned()).collect()
    });
}

pub fn pods_by_claim(pods: &Informer<Pod>) {
    pods.index(PODS_BY_CLAIM, pod_volumes::claim_keys);
}

pub fn attachments_by_volume(attachments: &Informer<VolumeAttachment>) {
    attachments.index(ATTACHMENTS_BY_VOLUME, |attachment| {
        attachment.spec.source.persistent_volume_name.clone().into_iter().collect()
    });
}

pub fn by_controller_uid<K: Kind>(informer: &Informer<K>) {
    informer
        .index(BY_CONTROLLER_UID, |object| controller_of(object).map(|owner| owner.uid.clone()).into_iter().collect());
}
