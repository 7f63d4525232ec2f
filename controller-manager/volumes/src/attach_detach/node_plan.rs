//! Plans the list of attached volumes in the status of one node.
//!
//! Corresponds to pkg/controller/volume/attachdetach/statusupdater, and to the event of GenerateAttachVolumeFunc in
//! pkg/volume/util/operationexecutor.

use super::place::Place;
use client::{Action, Patch, Plan};
use controller_base::actions;
use jiff::Timestamp;
use proto::Kind;
use proto::kinds::api::core::v1::Node;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reason of the event about a volume that was attached.
pub const SUCCEEDED: &str = "SuccessfulAttachVolume";

/// A node, and the volumes that are attached to it or reported there.
#[derive(Clone, Debug)]
pub struct Observed {
    pub node: Arc<Node>,
    /// Each with the name of its PersistentVolume.
    pub volumes: Vec<(String, Place)>,
    pub forces_detach: bool,
    pub verifies: bool,
}

pub fn plan(observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::default();
    let mut attached = BTreeSet::new();
    let mut events = Vec::new();
    for (persistent_volume, place) in &observed.volumes {
        let departure = place.departure(observed.forces_detach);
        let is_there = match place.attachment {
            Some(_) => place.is_attached(),
            None => place.is_reported() && !observed.verifies,
        };
        if departure.is_due(now) || !is_there {
            continue;
        }
        departure.wait(now).into_iter().for_each(|wait| plan.requeue_within(wait));
        attached.insert(place.volume.unique_name());
        if !place.is_reported() {
            let message = format!("AttachVolume.Attach succeeded for volume {persistent_volume:?} ");
            events.extend(place.pods.iter().map(|pod| actions::normal(&**pod, SUCCEEDED, message.as_str())));
        }
    }
    let status = observed.node.status.as_ref();
    let reported = status.iter().flat_map(|status| status.volumes_attached.iter().flatten());
    if reported.map(|volume| volume.name.clone()).collect::<BTreeSet<String>>() != attached {
        plan.push(report(&observed.node, &attached));
        plan.actions.extend(events);
    }
    plan
}

fn report(node: &Node, attached: &BTreeSet<String>) -> Action {
    // A CSI driver tells nobody a device path.
    let list: Vec<Value> = attached.iter().map(|name| json!({"name": name, "devicePath": ""})).collect();
    let list = if list.is_empty() { Value::Null } else { list.into() };
    Action::patch_status::<Node>("", node.name(), Patch::Merge(json!({"status": {"volumesAttached": list}})))
}
