//! Finds ResourceClaims that are kept for pods which need them no more, and pods without their claims.

use super::{Objects, has_ended, items, text};
use serde_json::Value;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// Checks that a claim is reserved for pods that need it, that only an allocated claim has the finalizer, and that the pod for
/// which a claim was made names it.
pub fn claim(claim: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let pods = format!("/registry/pods/{}/", text(claim, "/metadata/namespace"));
    let pod = |uid: &str| objects.below(&pods).find(|pod| text(pod, "/metadata/uid") == uid);
    for consumer in items(claim, "/status/reservedFor") {
        let name = text(consumer, "/name");
        match pod(text(consumer, "/uid")) {
            None => reasons.push(format!("is reserved for {name}, which is gone")),
            Some(pod) if has_ended(pod) => reasons.push(format!("is reserved for {name}, which has ended")),
            Some(pod) if is_tainted(claim, objects) => {
                reasons.push(format!("has a tainted device, and {} uses it", text(pod, "/metadata/name")));
            }
            Some(pod) if text(pod, "/spec/nodeName").is_empty() => {
                reasons.push(format!("is reserved for {name}, which has no node"));
            }
            Some(_) => {}
        }
    }
    let is_allocated = claim.pointer("/status/allocation").is_some();
    let is_protected = items(claim, "/metadata/finalizers").iter().any(|finalizer| finalizer == FINALIZER);
    if is_protected && !is_allocated {
        reasons.push("has no devices, and the finalizer".to_owned());
    }
    let Some(owner) = items(claim, "/metadata/ownerReferences").iter().find(|owner| owner["kind"] == "Pod") else {
        return;
    };
    // The general check tells of owners that are gone.
    let Some(owner) = pod(text(owner, "/uid")) else { return };
    let names = |status: &Value| status["resourceClaimName"] == claim["metadata"]["name"];
    if has_ended(owner) {
        reasons.push("was made for a pod that has ended".to_owned());
    } else if !items(owner, "/status/resourceClaimStatuses").iter().any(names) {
        reasons.push("was made for a pod that does not name it".to_owned());
    }
}

/// Returns true if a device of the claim has a taint that evicts.
fn is_tainted(claim: &Value, objects: &Objects) -> bool {
    let devices = items(claim, "/status/allocation/devices/results");
    devices.iter().any(|allocated| {
        let of_pool = |slice: &&Value| slice["spec"]["pool"]["name"] == allocated["pool"];
        let slices = objects.below("/registry/resourceslices/").filter(of_pool);
        let devices = slices.flat_map(|slice| items(slice, "/spec/devices"));
        let mut taints =
            devices.filter(|device| device["name"] == allocated["device"]).flat_map(|device| items(device, "/taints"));
        taints.any(|taint| taint["effect"] == "NoExecute")
    })
}
