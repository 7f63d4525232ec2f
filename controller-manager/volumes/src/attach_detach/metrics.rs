//! How many volumes are attached, ought to be, and are in use on each node, and how many were detached by force.
//!
//! Corresponds to pkg/controller/volume/attachdetach/metrics. The counts are taken from the caches at each scrape.

use super::observe::Caches;
use super::place::Place;
use client::{Action, Plan};
use component_base::env::Env;
use component_base::metrics::{Counters, Gauges, Labels};
use component_helpers::volumes::csi_volume::CsiVolume;
use proto::Kind;
use proto::kinds::api::storage::v1::VolumeAttachment;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Counts = BTreeMap<Labels, i64>;

/// Registers the families of counts. They are taken for as long as the environment runs.
pub fn register(env: &Env, caches: &Arc<Caches>) {
    let in_use = env.metrics().gauges("storage_count_attachable_volumes_in_use", "Measure number of volumes in use");
    let total = env.metrics().gauges("attachdetach_controller_total_volumes", "Number of volumes in A/D Controller");
    let (caches, shutdown) = (caches.clone(), env.shutdown().clone());
    env.metrics().before_encoding(move || {
        let (used, all) = count(&caches);
        set(&in_use, used);
        set(&total, all);
        !shutdown.is_cancelled()
    });
}

fn set(family: &Gauges, counts: Counts) {
    family.clear();
    for (labels, count) in counts {
        family.get_or_create(&labels).set(count);
    }
}

/// Returns the volumes in use by node and plugin, and all volumes by plugin and by whether they are, or ought to be, attached.
fn count(caches: &Caches) -> (Counts, Counts) {
    let (mut in_use, mut total) = (Counts::new(), Counts::new());
    let of_state = |volume: &CsiVolume, state: &str| vec![("plugin_name", plugin(volume)), ("state", state.to_owned())];
    let volumes: BTreeSet<CsiVolume> =
        caches.volumes.list().iter().filter_map(|volume| CsiVolume::of(volume)).collect();
    for volume in &volumes {
        for (node, pods) in caches.users(volume).1 {
            let labels = vec![("node", node), ("volume_plugin", plugin(volume))];
            *in_use.entry(labels).or_default() += pods.len() as i64;
            *total.entry(of_state(volume, "desired_state_of_world")).or_default() += 1;
        }
    }
    for volume in caches.attachments.list().iter().filter_map(|attachment| caches.volume_of(attachment)) {
        *total.entry(of_state(&volume, "actual_state_of_world")).or_default() += 1;
    }
    (in_use, total)
}

/// Returns the name of a volume's plugin, which is that of all CSI drivers with the driver's.
fn plugin(volume: &CsiVolume) -> String {
    format!("kubernetes.io/csi:{}", volume.driver)
}

/// Counts volumes that were detached although their node may have mounted them.
pub struct ForcedDetaches(Counters);

impl ForcedDetaches {
    pub fn new(env: &Env) -> Self {
        let name = "attach_detach_controller_attachdetach_controller_forced_detaches";
        Self(env.metrics().counters(name, "Number of times the A/D Controller performed a forced detach"))
    }

    /// Counts the places whose attachment a plan deletes by force.
    pub fn count(&self, places: &[Place], plan: &Plan) {
        let deleted: BTreeSet<&str> = plan.actions.iter().filter_map(deleted_attachment).collect();
        let is_deleted =
            |place: &&Place| place.attachment.as_ref().is_some_and(|attachment| deleted.contains(attachment.name()));
        for reason in places.iter().filter(is_deleted).filter_map(Place::force) {
            self.0.get_or_create(&vec![("reason", reason.to_owned())]).inc();
        }
    }
}

fn deleted_attachment(action: &Action) -> Option<&str> {
    match action {
        Action::Delete { gvr, name, .. } if *gvr == VolumeAttachment::gvr() => Some(name),
        _ => None,
    }
}
