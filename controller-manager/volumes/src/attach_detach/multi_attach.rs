//! The event of a pod whose volume may be attached to one node at a time, and is attached to another one.
//!
//! Corresponds to reportMultiAttachError in pkg/controller/volume/attachdetach/reconciler and to IsMultiAttachAllowed in
//! pkg/controller/volume/attachdetach/util.

use super::place::Place;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, Pod};

/// Returns true if the volume may be attached to one node only. Without access modes nobody knows, and the driver decides.
pub fn is_exclusive(volume: &PersistentVolume) -> bool {
    let modes = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    !modes.is_empty() && !modes.iter().any(|mode| mode == "ReadWriteMany" || mode == "ReadOnlyMany")
}

/// Returns the message for one pod. It does not name pods of other namespaces, which the pod's user may not see.
pub fn message(volume: &PersistentVolume, pod: &Pod, others: &[&Place]) -> String {
    let users: Vec<&Pod> = others.iter().flat_map(|place| place.pods.iter().map(|pod| &**pod)).collect();
    let local: Vec<&str> =
        users.iter().filter(|user| user.namespace() == pod.namespace()).map(|user| user.name()).collect();
    let elsewhere = users.len() - local.len();
    let why = match (local.is_empty(), elsewhere) {
        (true, 0) => "Volume is already exclusively attached to one node and can't be attached to another".to_owned(),
        (true, count) => format!("Volume is already used by {count} pod(s) in different namespaces"),
        (false, 0) => format!("Volume is already used by pod(s) {}", local.join(", ")),
        (false, count) => {
            format!("Volume is already used by pod(s) {} and {count} pod(s) in different namespaces", local.join(", "))
        }
    };
    format!("Multi-Attach error for volume {:?} {why}", volume.name())
}
