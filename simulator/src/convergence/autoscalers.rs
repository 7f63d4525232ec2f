//! Finds autoscalers whose target has not the size that they ask for.

use super::{Objects, number, text};
use serde_json::Value;

/// Checks that an autoscaler of a Deployment has scaled it to the size that its metric asks for, within its bounds.
pub fn check(autoscaler: &Value, objects: &Objects, reasons: &mut Vec<String>) {
    let of_target = |field: &str| text(autoscaler, &format!("/spec/scaleTargetRef/{field}"));
    let key = format!("/registry/deployments/{}/{}", text(autoscaler, "/metadata/namespace"), of_target("name"));
    // Without a target, it says so once in its status.
    let Some(target) = objects.by_key.get(&key) else { return };
    let size = number(target, "/spec/replicas");
    let (least, most) = (number(autoscaler, "/spec/minReplicas"), number(autoscaler, "/spec/maxReplicas"));
    if size < least || size > most {
        reasons.push(format!("has a target of {size} replicas, and is for {least} to {most}"));
    }
    for count in ["currentReplicas", "desiredReplicas"] {
        let said = number(autoscaler, &format!("/status/{count}"));
        if said != size {
            reasons.push(format!("says {count} {said}, and its target has {size}"));
        }
    }
}
