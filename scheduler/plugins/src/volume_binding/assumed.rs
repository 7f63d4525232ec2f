//! `Assumed`: the choices of pods that are being bound, which the caches do not show yet.
//!
//! Corresponds to the assume caches in pkg/scheduler/framework/plugins/volumebinding/binder.go.

use super::node_volumes::NodeVolumes;
use component_helpers::volumes::annotations::{SELECTED_NODE, annotate, has_annotation};
use component_helpers::volumes::binding::referring_to;
use component_helpers::volumes::{claims, persistent_volumes};
use parking_lot::Mutex;
use proto::Kind;
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// An object as it will be, and the uids of the pods that assume it.
struct Entry<T> {
    object: Arc<T>,
    pods: BTreeSet<String>,
}

#[derive(Default)]
struct Entries {
    volumes: BTreeMap<String, Entry<PersistentVolume>>,
    claims: BTreeMap<String, Entry<PersistentVolumeClaim>>,
}

/// Clones share the choices.
#[derive(Clone, Default)]
pub struct Assumed(Arc<Mutex<Entries>>);

impl Assumed {
    /// Keeps the choice of a pod until `release`.
    pub fn assume(&self, pod_uid: &str, node: &str, chosen: &NodeVolumes) {
        let mut entries = self.0.lock();
        for (volume, claim) in &chosen.bindings {
            let bound = referring_to(volume, claim).map_or_else(|| volume.clone(), Arc::new);
            add(&mut entries.volumes, volume.name().to_owned(), bound, pod_uid);
        }
        for claim in &chosen.provisions {
            let mut asking = (**claim).clone();
            annotate(&mut asking, SELECTED_NODE, node);
            add(&mut entries.claims, claim.key(), Arc::new(asking), pod_uid);
        }
    }

    pub fn release(&self, pod_uid: &str) {
        let mut entries = self.0.lock();
        remove(&mut entries.volumes, pod_uid);
        remove(&mut entries.claims, pod_uid);
    }

    /// Returns a volume as it will be. The cache is right again as soon as its volume refers to a claim.
    pub fn volume(&self, cached: Arc<PersistentVolume>) -> Arc<PersistentVolume> {
        if !persistent_volumes::claim_uid(&cached).is_empty() {
            return cached;
        }
        self.0.lock().volumes.get(cached.name()).map_or(cached, |entry| entry.object.clone())
    }

    /// Returns a claim as it will be. The cache is right again as soon as its claim has a node or a volume.
    pub fn claim(&self, cached: Arc<PersistentVolumeClaim>) -> Arc<PersistentVolumeClaim> {
        if has_annotation(&*cached, SELECTED_NODE) || !claims::volume_name(&cached).is_empty() {
            return cached;
        }
        let entries = self.0.lock();
        let assumed = entries.claims.get(&cached.key()).filter(|entry| entry.object.uid() == cached.uid());
        assumed.map_or(cached, |entry| entry.object.clone())
    }
}

fn add<T>(entries: &mut BTreeMap<String, Entry<T>>, key: String, object: Arc<T>, pod_uid: &str) {
    let entry = entries.entry(key).or_insert_with(|| Entry { object: object.clone(), pods: BTreeSet::new() });
    entry.object = object;
    entry.pods.insert(pod_uid.to_owned());
}

fn remove<T>(entries: &mut BTreeMap<String, Entry<T>>, pod_uid: &str) {
    entries.retain(|_, entry| !entry.pods.remove(pod_uid) || !entry.pods.is_empty());
}
