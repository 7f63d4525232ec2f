//! Finds volumes that are attached where no pod uses them, or not attached where a pod does.

use super::{Objects, has_ended, items, text};
use serde_json::Value;

/// Checks that a VolumeAttachment is carried out, and that a pod on its node uses the volume.
pub fn attachment(attachment: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let (volume, node) = (text(attachment, "/spec/source/persistentVolumeName"), text(attachment, "/spec/nodeName"));
    let uses = |pod: &Value| text(pod, "/spec/nodeName") == node && volumes_of(pod, objects).any(|used| used == volume);
    if !objects.below("/registry/pods/").any(uses) {
        reasons.push(format!("attaches {volume} to {node}, where no pod uses it"));
    }
    if attachment.pointer("/status/attached") != Some(&Value::Bool(true)) {
        reasons.push("is not attached".to_owned());
    }
}

/// Checks that the volumes of a pod are attached to its node.
pub fn pod(pod: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let node = text(pod, "/spec/nodeName");
    for volume in volumes_of(pod, objects) {
        let is_its = |attachment: &Value| {
            text(attachment, "/spec/source/persistentVolumeName") == volume
                && text(attachment, "/spec/nodeName") == node
        };
        if !objects.below("/registry/volumeattachments/").any(is_its) {
            reasons.push(format!("uses {volume}, which is not attached to {node}"));
        }
    }
}

/// Returns the names of the volumes that the claims of a pod are bound to; none if it has no node, or has ended.
fn volumes_of<'a>(pod: &'a Value, objects: &'a Objects) -> impl Iterator<Item = &'a str> {
    let runs = !text(pod, "/spec/nodeName").is_empty() && !has_ended(pod);
    let used = items(pod, "/spec/volumes").iter().filter(move |_| runs);
    used.filter_map(|volume| {
        let claim = volume.pointer("/persistentVolumeClaim/claimName")?.as_str()?;
        let key = format!("/registry/persistentvolumeclaims/{}/{claim}", text(pod, "/metadata/namespace"));
        objects.by_key.get(&key)?.pointer("/spec/volumeName")?.as_str()
    })
}
