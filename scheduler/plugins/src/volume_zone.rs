//! VolumeZone keeps a pod in the zone and region that the labels of its volumes name.
//!
//! Volumes of today name their places in `spec.nodeAffinity`, which VolumeBinding follows; the labels are older.
//! Corresponds to pkg/scheduler/framework/plugins/volumezone.

use crate::storage::{self, Storage};
use component_helpers::volumes::{claims, pod_volumes};
use proto::Kind;
use proto::kinds::api::core::v1::PersistentVolume;
use proto::meta::node_labels;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection};
use std::sync::Arc;

const NAME: &str = "VolumeZone";
const CONFLICT: &str = "node(s) had no available volume zone";
/// The labels of volumes and nodes, each with its present name.
const LABELS: [(&str, &str); 4] = [
    (node_labels::BETA_ZONE, node_labels::ZONE),
    (node_labels::BETA_REGION, node_labels::REGION),
    (node_labels::ZONE, node_labels::ZONE),
    (node_labels::REGION, node_labels::REGION),
];
/// Stands between the zones of a volume that is in several.
const SEPARATOR: &str = "__";

pub struct VolumeZone {
    pub storage: Storage,
}

/// A label that a node must have with one of the values.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    label: &'static str,
    /// The present name of the label.
    present: &'static str,
    values: Vec<String>,
}

impl Place {
    fn has(&self, node: &NodeInfo) -> bool {
        let value = node.label(self.label).or_else(|| node.label(self.present));
        value.is_some_and(|value| self.values.iter().any(|one| one == value))
    }
}

impl VolumeZone {
    /// Returns the volume of a claim; `None` if it is chosen together with the node.
    fn volume(&self, namespace: &str, claim: &str) -> Result<Option<Arc<PersistentVolume>>, String> {
        if claim.is_empty() {
            return Err("PersistentVolumeClaim had no name".to_owned());
        }
        let Some(claim) = self.storage.claims.get(namespace, claim) else {
            return Err(format!("persistentvolumeclaim {claim:?} not found"));
        };
        let name = claims::volume_name(&claim);
        if !name.is_empty() {
            let volume = self.storage.volume(name);
            return volume.map(Some).ok_or_else(|| format!("persistentvolume {name:?} not found"));
        }
        let class = claims::class(&claim);
        if class.is_empty() {
            return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
        }
        let Some(class) = self.storage.classes.get("", class) else {
            return Err(format!("storageclass.storage.k8s.io {class:?} not found"));
        };
        match class.volume_binding_mode.as_deref() {
            Some("WaitForFirstConsumer") => Ok(None),
            Some(_) => Err("PersistentVolume had no name".to_owned()),
            None => Err(format!("VolumeBindingMode not set for StorageClass {:?}", class.name())),
        }
    }

    fn places(&self, pod: &PodInfo) -> Result<Vec<Place>, Rejection> {
        let mut places = Vec::new();
        for volume in pod_volumes::with_claims(&pod.pod).filter(|volume| !volume.is_ephemeral) {
            let found = self.volume(pod.namespace(), &volume.claim);
            let Some(volume) = found.map_err(|why| Rejection::unresolvable(NAME, why))? else { continue };
            let Some(labels) = &volume.metadata.labels else { continue };
            places.extend(LABELS.iter().filter_map(|(label, present)| {
                let values = labels.get(*label)?.split(SEPARATOR).map(str::to_owned).collect();
                Some(Place { label, present, values })
            }));
        }
        Ok(places)
    }
}

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        storage::may_bring_volume_in_reach(pod, event)
    }
}

impl PreFilter for VolumeZone {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        let places = self.places(pod)?;
        if places.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        state.write(NAME, places);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for VolumeZone {
    /// Nodes without any of the labels pass: the cluster has no zones then.
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(places) = state.read::<Vec<Place>>(NAME) else { return Ok(()) };
        let is_placed = LABELS.iter().any(|(label, _)| node.label(label).is_some());
        if is_placed && !places.iter().all(|place| place.has(node)) {
            return Err(Rejection::unresolvable(NAME, CONFLICT));
        }
        Ok(())
    }

    fn reads_pods(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestCluster, info, node, with_claims};
    use client::Lister;
    use proto::kinds::api::core::v1::PersistentVolumeClaim;
    use proto::kinds::api::storage::v1::StorageClass;
    use serde_json::{Value, json};

    fn plugin() -> VolumeZone {
        let claim = |name: &str, spec: Value| {
            let claim = json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec});
            PersistentVolumeClaim::decode_value(claim).unwrap()
        };
        let volume = |name: &str, labels: Value| {
            PersistentVolume::decode_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
        };
        let class = |name: &str, mode: Value| {
            let class = json!({"metadata": {"name": name}, "provisioner": "p", "volumeBindingMode": mode});
            StorageClass::decode_value(class).unwrap()
        };
        let storage = Storage::empty().with_volumes([
            volume("a", json!({"topology.kubernetes.io/zone": "a"})),
            volume("b-or-c", json!({"topology.kubernetes.io/zone": "b__c"})),
            volume("old-a", json!({"failure-domain.beta.kubernetes.io/zone": "a"})),
            volume("plain", json!({"color": "red"})),
        ]);
        let storage = Storage {
            claims: Lister::of([
                claim("in-a", json!({"volumeName": "a"})),
                claim("in-b-or-c", json!({"volumeName": "b-or-c"})),
                claim("old-a", json!({"volumeName": "old-a"})),
                claim("anywhere", json!({"volumeName": "plain"})),
                claim("dangling", json!({"volumeName": "gone"})),
                claim("late", json!({"storageClassName": "late"})),
                claim("soon", json!({"storageClassName": "soon"})),
                claim("classless", json!({})),
            ]),
            classes: Lister::of([class("late", json!("WaitForFirstConsumer")), class("soon", json!("Immediate"))]),
            ..storage
        };
        VolumeZone { storage }
    }

    #[test]
    fn a_pod_stays_in_the_zone_of_its_volumes() {
        let bare = node("bare", "a", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": null}}}));
        let mut cluster = TestCluster::new([node("n1", "a", json!({})), node("n2", "b", json!({})), bare]);
        cluster.cache.update(&mut cluster.snapshot);
        let plugin = plugin();
        let fits = |claims: &[&str]| -> Result<String, String> {
            let (mut state, pod) = (CycleState::default(), info(with_claims("web", claims)));
            let told = |why: Rejection| why.reasons.join(", ");
            if let PreFilterResult::Skip = plugin.pre_filter(&mut state, &pod, &cluster.snapshot).map_err(told)? {
                return Ok("skipped".to_owned());
            }
            let fit = ["n1", "n2", "bare"]
                .into_iter()
                .filter(|name| plugin.filter(&state, &pod, cluster.snapshot.get(name).unwrap()).is_ok());
            Ok(fit.collect::<Vec<_>>().join(" "))
        };
        for (claims, expected) in [
            (&["in-a"][..], Ok("n1 bare")),
            (&["in-b-or-c"], Ok("n2 bare")),
            (&["old-a"], Ok("n1 bare")),
            (&["in-a", "in-b-or-c"], Ok("bare")),
            (&["anywhere"], Ok("skipped")),
            (&["late"], Ok("skipped")),
            (&[], Ok("skipped")),
            (&["soon"], Err("PersistentVolume had no name")),
            (&["classless"], Err("PersistentVolumeClaim had no pv name and storageClass name")),
            (&["dangling"], Err("persistentvolume \"gone\" not found")),
            (&["none"], Err("persistentvolumeclaim \"none\" not found")),
        ] {
            assert_eq!(fits(claims), expected.map(str::to_owned).map_err(str::to_owned), "{claims:?}");
        }
    }
}
