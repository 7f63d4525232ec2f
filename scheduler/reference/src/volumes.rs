//! Volumes: which claims and disks let a pod run on a node, from the objects of storage.

use crate::nodes::matches;
use crate::resources::{Point, on_line};
use crate::selector::selects;
use crate::{Cluster, NO_LABELS, Rejection, Settings, label};
use component_helpers::volumes::annotations::{SELECTED_NODE, annotation};
use component_helpers::volumes::csi_volume::CsiVolume;
use component_helpers::volumes::pod_volumes::{self, ClaimVolume};
use component_helpers::volumes::{claims, persistent_volumes as volumes};
use proto::Kind;
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume};
use proto::kinds::api::storage::v1::{CSIStorageCapacity, StorageClass};
use proto::meta::quantity::Quantity;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BINDING: &str = "VolumeBinding";
const RESTRICTIONS: &str = "VolumeRestrictions";
const LIMITS: &str = "NodeVolumeLimits";
const ZONE: &str = "VolumeZone";
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
const EXCLUSIVE: &str = "ReadWriteOncePod";
const ONE_POD: &str = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";

/// The claims of a pod, as VolumeBinding sees them.
#[derive(Default)]
pub struct Wanted<'a> {
    bound: Vec<&'a PersistentVolume>,
    /// Claims that wait for their first consumer, the smallest first.
    waiting: Vec<(&'a PersistentVolumeClaim, &'a StorageClass)>,
}

/// What the claims that wait get on a node.
#[derive(Default)]
struct Choice<'a> {
    /// Claims that get volumes which are there, with their sizes in bytes.
    found: Vec<(&'a PersistentVolumeClaim, i64)>,
    /// Claims for which volumes are made, with the room in bytes.
    made: Vec<(&'a PersistentVolumeClaim, i64)>,
}

impl Choice<'_> {
    /// Returns how much of the storage of each class is used, in percent. What is to be made counts only if no volume is there.
    fn uses(&self) -> impl Iterator<Item = i64> {
        let is_made = self.found.is_empty();
        let mut classes: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
        for (claim, bytes) in if is_made { &self.made } else { &self.found } {
            let (wanted, all) = classes.entry(claims::class(claim)).or_default();
            *wanted = wanted.saturating_add(claims::requested(claim).value());
            *all = if is_made { *bytes } else { all.saturating_add(*bytes) };
        }
        let percent = |(wanted, all): (i64, i64)| match all {
            0 => 100,
            all => (i128::from(wanted) * 100 / i128::from(all)).min(100) as i64,
        };
        classes.into_values().map(percent)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BindingArgs {
    shape: Option<Vec<Point>>,
}

fn rejection(plugin: &'static str, why: String) -> Rejection {
    Rejection { plugin, reasons: vec![why], is_resolvable: false }
}

fn not_found(claim: &str) -> String {
    format!("persistentvolumeclaim {claim:?} not found")
}

impl Cluster {
    fn claim(&self, pod: &Pod, name: &str) -> Option<&PersistentVolumeClaim> {
        self.storage.claims.get_in(pod.namespace(), name)
    }

    fn volume(&self, name: &str) -> Option<&PersistentVolume> {
        self.storage.volumes.get(name)
    }

    fn class_of(&self, claim: &PersistentVolumeClaim) -> Option<&StorageClass> {
        self.storage.classes.get(claims::class(claim))
    }

    /// Reads the claims of a pod, or returns why it can run nowhere.
    pub(crate) fn wanted_volumes(&self, pod: &Pod) -> Result<Wanted<'_>, Rejection> {
        let (mut wanted, mut is_unbound) = (Wanted::default(), false);
        for needed in pod_volumes::with_claims(pod) {
            let claim = self.usable(pod, &needed).map_err(|why| rejection(BINDING, why))?;
            let name = claims::volume_name(claim);
            let waits = self.class_of(claim).filter(|class| claims::waits_for_consumer(Some(class)));
            match waits {
                _ if !name.is_empty() && claims::is_bind_completed(claim) => {
                    let gone = || rejection(BINDING, format!("persistentvolume {name:?} not found"));
                    wanted.bound.push(self.volume(name).ok_or_else(gone)?);
                }
                Some(class) if name.is_empty() => wanted.waiting.push((claim, class)),
                _ => is_unbound = true,
            }
        }
        wanted.waiting.sort_by_key(|(claim, _)| claims::requested(claim));
        match is_unbound {
            true => Err(rejection(BINDING, "pod has unbound immediate PersistentVolumeClaims".to_owned())),
            false => Ok(wanted),
        }
    }

    /// Returns the claim of a volume, or why the pod cannot use it.
    fn usable(&self, pod: &Pod, needed: &ClaimVolume<'_>) -> Result<&PersistentVolumeClaim, String> {
        let name = &needed.claim;
        let Some(claim) = self.claim(pod, name) else {
            return Err(match needed.is_ephemeral {
                true => format!("waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"),
                false => not_found(name),
            });
        };
        if claims::phase(claim) == "Lost" {
            let volume = claims::volume_name(claim);
            return Err(format!("persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"));
        }
        if claim.is_deleting() {
            return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        let is_owned = claim.metadata.owner_references.iter().flatten();
        let is_owned = is_owned.filter(|owner| owner.controller == Some(true)).any(|owner| owner.uid == pod.uid());
        if needed.is_ephemeral && !is_owned {
            return Err(format!("PVC {} was not created for pod {} (pod is not owner)", claim.key(), pod.key()));
        }
        Ok(claim)
    }

    /// Rejects a node on which the claims do not get their volumes.
    pub(crate) fn lacks_volumes(&self, wanted: &Wanted<'_>, node: &Node) -> Option<Rejection> {
        let mut reasons = Vec::new();
        if !wanted.bound.iter().all(|volume| is_in_reach(volume, node)) {
            reasons.push("node(s) didn't match PersistentVolume's node affinity".to_owned());
        }
        reasons.extend(self.choice(wanted, node).err().map(str::to_owned));
        (!reasons.is_empty()).then_some(Rejection { plugin: BINDING, reasons, is_resolvable: false })
    }

    /// Returns what the claims that wait get on a node, or why one of them gets nothing.
    fn choice<'a>(&'a self, wanted: &Wanted<'a>, node: &Node) -> Result<Choice<'a>, &'static str> {
        let (mut choice, mut taken) = (Choice::default(), BTreeSet::new());
        for (claim, class) in &wanted.waiting {
            let selected = annotation(*claim, SELECTED_NODE);
            if selected.is_some_and(|selected| selected != node.name()) {
                return Err(BIND_CONFLICT);
            }
            let found = if selected.is_some() { None } else { self.smallest(claim, class, node, &taken) };
            match found {
                Some(volume) => {
                    taken.insert(volume.name().to_owned());
                    choice.found.push((*claim, volumes::capacity(volume).value()));
                }
                None => choice.made.extend(self.make(claim, class, node)?.map(|room| (*claim, room))),
            }
        }
        Ok(choice)
    }

    /// Scores nodes by how full the storage gets that the claims use there: the mean of its classes. `None` without a shape or
    /// without claims.
    pub(crate) fn volume_scores(&self, settings: &Settings, pod: &Pod, fit: &[&Node]) -> Option<Vec<i64>> {
        let shape = settings.args::<BindingArgs>(BINDING).shape?;
        let is_asked = settings.pre_filters.iter().any(|plugin| plugin == BINDING);
        pod_volumes::with_claims(pod).next().filter(|_| is_asked)?;
        let wanted = self.wanted_volumes(pod).ok()?;
        let of_node = |node: &&Node| {
            let scores: Vec<i64> = match self.choice(&wanted, node) {
                Ok(choice) => choice.uses().map(|percent| on_line(&shape, percent)).collect(),
                Err(_) => Vec::new(),
            };
            let sum: i64 = scores.iter().sum();
            if scores.is_empty() { 0 } else { (sum as f64 / scores.len() as f64).round() as i64 }
        };
        Some(fit.iter().map(of_node).collect())
    }

    /// Returns the volume that is reserved for a claim, or else the smallest one that fits.
    fn smallest(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        node: &Node,
        taken: &BTreeSet<String>,
    ) -> Option<&PersistentVolume> {
        let volumes = self.storage.volumes.iter();
        let free: Vec<&PersistentVolume> =
            volumes.filter(|v| volumes::class(v) == class.name() && !taken.contains(v.name())).collect();
        let is_reserved = |volume: &PersistentVolume| {
            let reference = volumes::claim_ref(volume);
            reference.is_some_and(|it| {
                it.name.as_deref() == Some(claim.name())
                    && it.namespace.as_deref() == Some(claim.namespace())
                    && it.uid.as_deref().is_none_or(|uid| uid.is_empty() || uid == claim.uid())
            })
        };
        // They are in the order of their names.
        if let Some(reserved) = free.iter().find(|volume| is_reserved(volume) && suits(volume, claim)) {
            return Some(*reserved).filter(|volume| is_in_reach(volume, node));
        }
        let selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let is_selected = |volume: &PersistentVolume| {
            selector.is_none() || selects(selector, volume.metadata.labels.as_ref().unwrap_or(&NO_LABELS))
        };
        let is_free = |volume: &&PersistentVolume| {
            volumes::claim_ref(volume).is_none()
                && volumes::phase(volume) == "Available"
                && is_selected(volume)
                && suits(volume, claim)
                && is_in_reach(volume, node)
        };
        free.into_iter().filter(is_free).min_by_key(|volume| (volumes::capacity(volume), volume.name().to_owned()))
    }

    /// Returns the room, in bytes, where a volume can be made for a claim within reach of the node, or why none can. The driver
    /// may not tell how much room there is.
    fn make(
        &self,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        node: &Node,
    ) -> Result<Option<i64>, &'static str> {
        if ["", "kubernetes.io/no-provisioner"].contains(&class.provisioner.as_str()) {
            return Err(BIND_CONFLICT);
        }
        let topologies = class.allowed_topologies.as_deref().unwrap_or_default();
        let is_allowed = topologies.iter().any(|term| {
            let mut expressions = term.match_label_expressions.iter().flatten();
            expressions.all(|one| label(node, &one.key).is_some_and(|value| one.values.iter().any(|it| it == value)))
        });
        if !topologies.is_empty() && !is_allowed {
            return Err(BIND_CONFLICT);
        }
        let driver = self.storage.drivers.get(&class.provisioner);
        if driver.is_none_or(|driver| driver.spec.storage_capacity != Some(true)) {
            return Ok(None);
        }
        let labels = node.metadata.labels.as_ref().unwrap_or(&NO_LABELS);
        let has_room = |capacity: &Arc<CSIStorageCapacity>| {
            let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
            let limit = limit.and_then(|limit| Quantity::try_from(limit).ok());
            capacity.storage_class_name == class.name()
                && limit.is_some_and(|limit| limit >= claims::requested(claim))
                && selects(capacity.node_topology.as_ref(), labels)
        };
        let rooms = self.storage.capacities.iter().filter(|capacity| has_room(capacity));
        let first = rooms.min_by_key(|capacity| capacity.key()).ok_or("node(s) did not have enough free storage")?;
        let capacity = first.capacity.as_ref().and_then(|capacity| Quantity::try_from(capacity).ok());
        Ok(capacity.map(|capacity| capacity.value()))
    }

    /// Returns the claims of a pod that only one pod may use at a time.
    pub(crate) fn exclusive_claims(&self, pod: &Pod) -> Result<BTreeSet<String>, Rejection> {
        let mut exclusive = BTreeSet::new();
        for needed in pod_volumes::with_claims(pod).filter(|needed| !needed.is_ephemeral) {
            let claim =
                self.claim(pod, &needed.claim).ok_or_else(|| rejection(RESTRICTIONS, not_found(&needed.claim)))?;
            if claims::access_modes(claim).iter().any(|mode| mode == EXCLUSIVE) {
                exclusive.insert(claim.key());
            }
        }
        Ok(exclusive)
    }

    /// Returns true if a pod of the cluster uses one of these claims.
    pub(crate) fn uses_one_of(&self, exclusive: &BTreeSet<String>) -> bool {
        let uses = |(other, _): (&Pod, &Node)| pod_volumes::claim_keys(other).iter().any(|key| exclusive.contains(key));
        !exclusive.is_empty() && self.placed().any(uses)
    }

    /// Rejects a node with a pod whose disk is one of the pod's own, or every node if another pod has an exclusive claim.
    pub(crate) fn shares_disk(&self, is_claim_taken: bool, pod: &Pod, node: &Node) -> Option<Rejection> {
        let own: Vec<&Volume> = pod_volumes::volumes(pod).collect();
        let excludes = |other: &Arc<Pod>| {
            own.iter().any(|mine| pod_volumes::volumes(other).any(|theirs| is_same_disk(mine, theirs)))
        };
        if !own.is_empty() && self.pods_on(node).any(excludes) {
            return Some(Rejection::resolvable(RESTRICTIONS, "node(s) had no available disk"));
        }
        is_claim_taken.then(|| Rejection::resolvable(RESTRICTIONS, ONE_POD))
    }

    /// Returns the volumes of drivers behind a pod's claims. A claim without a volume stands for one of its own.
    fn driver_volumes(&self, pod: &Pod) -> BTreeSet<(String, String)> {
        let volume = |needed: ClaimVolume<'_>| {
            let claim = self.claim(pod, &needed.claim)?;
            if needed.is_ephemeral && !pod_volumes::is_made_for(claim, pod) {
                return None;
            }
            if let Some(volume) = self.volume(claims::volume_name(claim)) {
                return CsiVolume::of(volume).map(|it| (it.driver, it.handle));
            }
            Some((self.class_of(claim)?.provisioner.clone(), format!("of claim {}", claim.key())))
        };
        pod_volumes::with_claims(pod).filter_map(volume).collect()
    }

    pub(crate) fn has_too_many_volumes(&self, pod: &Pod, node: &Node) -> Option<Rejection> {
        let wanted = self.driver_volumes(pod);
        if wanted.is_empty() {
            return None;
        }
        let mut present: BTreeSet<(String, String)> =
            self.pods_on(node).flat_map(|other| self.driver_volumes(other)).collect();
        for attachment in self.storage.attachments.iter().filter(|it| it.spec.node_name == node.name()) {
            let name = attachment.spec.source.persistent_volume_name.as_deref().unwrap_or_default();
            present.extend(self.volume(name).and_then(CsiVolume::of).map(|it| (it.driver, it.handle)));
        }
        let drivers = self.storage.csi_nodes.get(node.name())?.spec.drivers.iter();
        let mut limits = drivers.filter_map(|driver| Some((&driver.name, driver.allocatable.as_ref()?.count?)));
        let exceeds = limits.any(|(driver, limit)| {
            let is_of = |volume: &&(String, String)| volume.0 == *driver;
            let added = wanted.difference(&present).filter(is_of).count();
            added > 0 && (present.iter().filter(is_of).count() + added) as i64 > i64::from(limit)
        });
        exceeds.then(|| Rejection::resolvable(LIMITS, "node(s) exceed max volume count"))
    }

    /// Returns the labels of the volumes of a pod that name zones and regions.
    pub(crate) fn volume_places(&self, pod: &Pod) -> Result<Vec<(&str, &str)>, Rejection> {
        let mut places = Vec::new();
        for needed in pod_volumes::with_claims(pod).filter(|needed| !needed.is_ephemeral) {
            let why = |why: String| rejection(ZONE, why);
            let claim = self.claim(pod, &needed.claim).ok_or_else(|| why(not_found(&needed.claim)))?;
            let name = claims::volume_name(claim);
            if !name.is_empty() {
                let gone = || why(format!("persistentvolume {name:?} not found"));
                let labels = self.volume(name).ok_or_else(gone)?.metadata.labels.iter().flatten();
                let labels = labels.map(|(key, value)| (key.as_str(), value.as_str()));
                let is_place = |key: &str| key.ends_with("/zone") || key.ends_with("/region");
                let is_known = |key: &str| {
                    key.starts_with("topology.kubernetes.io/") || key.starts_with("failure-domain.beta.kubernetes.io/")
                };
                places.extend(labels.filter(|(key, _)| is_known(key) && is_place(key)));
                continue;
            }
            let class = claims::class(claim);
            if class.is_empty() {
                return Err(why("PersistentVolumeClaim had no pv name and storageClass name".to_owned()));
            }
            let missing = || why(format!("storageclass.storage.k8s.io {class:?} not found"));
            let class = self.class_of(claim).ok_or_else(missing)?;
            match class.volume_binding_mode.as_deref() {
                Some("WaitForFirstConsumer") => {}
                Some(_) => return Err(why("PersistentVolume had no name".to_owned())),
                None => {
                    let class = class.name();
                    return Err(why(format!("VolumeBindingMode not set for StorageClass {class:?}")));
                }
            }
        }
        Ok(places)
    }
}

/// Rejects a node that is in another zone or region than the volumes. A node in none passes.
pub fn is_elsewhere(places: &[(&str, &str)], node: &Node) -> Option<Rejection> {
    const PREFIXES: [&str; 2] = ["topology.kubernetes.io/", "failure-domain.beta.kubernetes.io/"];
    if places.is_empty() {
        return None;
    }
    let value = |key: &str| {
        let kind = key.rsplit('/').next().unwrap_or_default();
        label(node, key).or_else(|| label(node, &format!("{}{kind}", PREFIXES[0])))
    };
    let all = PREFIXES.iter().flat_map(|prefix| ["zone", "region"].map(|kind| format!("{prefix}{kind}")));
    let is_somewhere = all.into_iter().any(|key| label(node, &key).is_some());
    let fits = |(key, values): &(&str, &str)| value(key).is_some_and(|it| values.split("__").any(|one| one == it));
    let is_elsewhere = is_somewhere && !places.iter().all(fits);
    is_elsewhere.then(|| Rejection::unresolvable(ZONE, "node(s) had no available volume zone"))
}

fn is_in_reach(volume: &PersistentVolume, node: &Node) -> bool {
    let affinity = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    matches(affinity, node)
}

/// Returns true if size, class of attributes, and modes of a volume are as the claim wants.
fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    !volume.is_deleting()
        && volumes::capacity(volume) >= claims::requested(claim)
        && volumes::attributes_class(volume) == claims::attributes_class(claim)
        && volumes::volume_mode(volume) == claims::volume_mode(claim)
        && claims::access_modes(claim).iter().all(|mode| volumes::access_modes(volume).contains(mode))
}

/// Returns true if both volumes are one disk, and not every two pods can share it.
fn is_same_disk(a: &Volume, b: &Volume) -> bool {
    let both_read = |a: Option<bool>, b: Option<bool>| a == Some(true) && b == Some(true);
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk) {
        return a.pd_name == b.pd_name && !both_read(a.read_only, b.read_only);
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store) {
        return a.volume_id == b.volume_id;
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi) {
        return a.iqn == b.iqn && !both_read(a.read_only, b.read_only);
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd) {
        let is_one_cluster = a.monitors.iter().any(|monitor| b.monitors.contains(monitor));
        return is_one_cluster && (&a.pool, &a.image) == (&b.pool, &b.image) && !both_read(a.read_only, b.read_only);
    }
    false
}
