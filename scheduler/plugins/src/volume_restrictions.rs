//! VolumeRestrictions keeps a pod away from others that use the same disk, where a disk or a claim allows only one.
//!
//! Corresponds to pkg/scheduler/framework/plugins/volumerestrictions.

use crate::storage::{self, Storage};
use component_helpers::volumes::{claims, pod_volumes};
use proto::Kind;
use proto::kinds::api::core::v1::Volume;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection};
use std::collections::BTreeSet;

const NAME: &str = "VolumeRestrictions";
const DISK_CONFLICT: &str = "node(s) had no available disk";
const CLAIM_CONFLICT: &str =
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";
/// Access mode of a claim that only one pod may use at a time.
const READ_WRITE_ONCE_POD: &str = "ReadWriteOncePod";

pub struct VolumeRestrictions {
    pub storage: Storage,
}

/// The pod's claims that only one pod may use, by namespace and name, and how many uses of them by other pods there are.
#[derive(Clone, Debug, Default)]
struct Exclusive {
    claims: BTreeSet<String>,
    uses: usize,
}

impl Exclusive {
    fn uses_of(&self, pod: &PodInfo) -> usize {
        if self.claims.is_empty() {
            return 0;
        }
        pod.claim_keys.iter().filter(|key| self.claims.contains(*key)).count()
    }
}

impl VolumeRestrictions {
    fn exclusive_claims(&self, pod: &PodInfo) -> Result<BTreeSet<String>, Rejection> {
        let mut found = BTreeSet::new();
        for volume in pod_volumes::with_claims(&pod.pod).filter(|volume| !volume.is_ephemeral) {
            let Some(claim) = self.storage.claims.get(pod.namespace(), &volume.claim) else {
                let reason = format!("persistentvolumeclaim {:?} not found", volume.claim);
                return Err(Rejection::unresolvable(NAME, reason));
            };
            if claims::access_modes(&claim).iter().any(|mode| mode == READ_WRITE_ONCE_POD) {
                found.insert(claim.key());
            }
        }
        Ok(found)
    }
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::AssignedPodDeleted(other) => {
                other.claim_keys.iter().any(|key| pod.claim_keys.contains(key)) || conflict(pod, other)
            }
            event => storage::changes_claim_of(pod, event),
        }
    }
}

impl PreFilter for VolumeRestrictions {
    fn pre_filter(
        &self,
        state: &mut CycleState,
        pod: &PodInfo,
        snapshot: &Snapshot,
    ) -> Result<PreFilterResult, Rejection> {
        let mut exclusive = Exclusive { claims: self.exclusive_claims(pod)?, uses: 0 };
        if exclusive.claims.is_empty() && !pod_volumes::volumes(&pod.pod).any(is_restricted) {
            return Ok(PreFilterResult::Skip);
        }
        exclusive.uses = exclusive.claims.iter().map(|key| snapshot.claim_uses(key) as usize).sum();
        state.write(NAME, exclusive);
        Ok(PreFilterResult::AllNodes)
    }

    fn add_pod(&self, state: &mut CycleState, _pod: &PodInfo, added: &PodInfo, _node: &NodeInfo) {
        if let Some(exclusive) = state.read_mut::<Exclusive>(NAME) {
            exclusive.uses += exclusive.uses_of(added);
        }
    }

    fn remove_pod(&self, state: &mut CycleState, _pod: &PodInfo, removed: &PodInfo, _node: &NodeInfo) {
        if let Some(exclusive) = state.read_mut::<Exclusive>(NAME) {
            exclusive.uses -= exclusive.uses_of(removed);
        }
    }
}

impl Filter for VolumeRestrictions {
    fn filter(&self, state: &CycleState, pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        if node.pods.iter().any(|other| conflict(pod, other)) {
            return Err(Rejection::unschedulable(NAME, DISK_CONFLICT));
        }
        match state.read::<Exclusive>(NAME) {
            Some(exclusive) if exclusive.uses > 0 => Err(Rejection::unschedulable(NAME, CLAIM_CONFLICT)),
            _ => Ok(()),
        }
    }
}

/// Returns true if a volume of a pod excludes one of the other pod.
fn conflict(pod: &PodInfo, other: &PodInfo) -> bool {
    let mut restricted = pod_volumes::volumes(&pod.pod).filter(|volume| is_restricted(volume));
    restricted.any(|volume| pod_volumes::volumes(&other.pod).any(|theirs| exclude_each_other(volume, theirs)))
}

/// Returns true if the volume names a disk that not every two pods can share.
fn is_restricted(volume: &Volume) -> bool {
    volume.gce_persistent_disk.is_some()
        || volume.aws_elastic_block_store.is_some()
        || volume.iscsi.is_some()
        || volume.rbd.is_some()
}

/// Returns true if both volumes are one disk, unless both only read and the disk allows that.
fn exclude_each_other(a: &Volume, b: &Volume) -> bool {
    let is_written = |a: Option<bool>, b: Option<bool>| a != Some(true) || b != Some(true);
    if let (Some(a), Some(b)) = (&a.gce_persistent_disk, &b.gce_persistent_disk) {
        return a.pd_name == b.pd_name && is_written(a.read_only, b.read_only);
    }
    if let (Some(a), Some(b)) = (&a.aws_elastic_block_store, &b.aws_elastic_block_store) {
        return a.volume_id == b.volume_id;
    }
    if let (Some(a), Some(b)) = (&a.iscsi, &b.iscsi) {
        return a.iqn == b.iqn && is_written(a.read_only, b.read_only);
    }
    if let (Some(a), Some(b)) = (&a.rbd, &b.rbd) {
        let is_shared = a.monitors.iter().any(|monitor| b.monitors.contains(monitor));
        return is_shared && a.pool == b.pool && a.image == b.image && is_written(a.read_only, b.read_only);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestCluster, info, node, pod, with_claims};
    use client::Lister;
    use proto::kinds::api::core::v1::PersistentVolumeClaim;
    use serde_json::{Value, json};

    #[test]
    fn disks_that_exclude_each_other() {
        let gce = |name: &str, read_only: bool| json!({"gcePersistentDisk": {"pdName": name, "readOnly": read_only}});
        let aws = |id: &str| json!({"awsElasticBlockStore": {"volumeID": id, "readOnly": true}});
        let iscsi = |target: &str, iqn: &str, read_only: bool| json!({"iscsi": {"targetPortal": target, "iqn": iqn, "lun": 0, "readOnly": read_only}});
        let rbd = |monitors: &[&str], image: &str, read_only: bool| json!({"rbd": {"monitors": monitors, "pool": "rbd", "image": image, "readOnly": read_only}});
        for (a, b, expected) in [
            (gce("d", false), gce("d", false), true),
            (gce("d", true), gce("d", false), true),
            (gce("d", true), gce("d", true), false),
            (gce("d", false), gce("e", false), false),
            (aws("v"), aws("v"), true),
            (aws("v"), aws("w"), false),
            (aws("v"), gce("v", false), false),
            (iscsi("a", "iqn.1", false), iscsi("b", "iqn.1", true), true),
            (iscsi("a", "iqn.1", true), iscsi("a", "iqn.1", true), false),
            (rbd(&["a", "b"], "i", false), rbd(&["b", "c"], "i", false), true),
            (rbd(&["a"], "i", false), rbd(&["b"], "i", false), false),
            (rbd(&["a"], "i", true), rbd(&["a"], "i", true), false),
            (json!({"emptyDir": {}}), json!({"emptyDir": {}}), false),
        ] {
            let with = |name: &str, source: &Value| {
                let mut volume = source.clone();
                volume["name"] = json!("v");
                info(pod(name, "1", json!({"volumes": [volume]})))
            };
            assert_eq!(conflict(&with("a", &a), &with("b", &b)), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_claim_for_one_pod_waits_for_the_other_pod() {
        let claim = |name: &str, mode: &str| json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"accessModes": [mode]}});
        let claims = [claim("one", READ_WRITE_ONCE_POD), claim("many", "ReadWriteOnce")];
        let claims = Lister::of(claims.map(|claim| PersistentVolumeClaim::decode_value(claim).unwrap()));
        let plugin = VolumeRestrictions { storage: Storage { claims, ..Storage::empty() } };
        let mut cluster = TestCluster::new([node("n1", "a", json!({})), node("n2", "b", json!({}))]);
        cluster.place(with_claims("first", &["one", "many"]), "n1");
        cluster.cache.update(&mut cluster.snapshot);
        let judge = |names: &[&str]| {
            let (mut state, pod) = (CycleState::default(), info(with_claims("second", names)));
            let result =
                plugin.pre_filter(&mut state, &pod, &cluster.snapshot).map_err(|why| why.reasons.join(", "))?;
            if matches!(result, PreFilterResult::Skip) {
                return Ok("skipped");
            }
            // Wherever it uses the claim, the other pod is in the way.
            let node = cluster.snapshot.get("n2").unwrap();
            let before = plugin.filter(&state, &pod, node);
            plugin.remove_pod(&mut state, &pod, &info(with_claims("first", &["one", "many"])), node);
            assert!(plugin.filter(&state, &pod, node).is_ok(), "nothing is left after the other pod");
            before.map(|()| "passes").map_err(|why| why.reasons.join(", "))
        };
        assert_eq!(judge(&["many"]), Ok("skipped"));
        assert_eq!(judge(&["one"]), Err(CLAIM_CONFLICT.to_owned()));
        assert_eq!(judge(&["none"]), Err("persistentvolumeclaim \"none\" not found".to_owned()));
        let waiting = info(with_claims("second", &["one"]));
        let gone = |names: &[&str]| ClusterEvent::AssignedPodDeleted(info(with_claims("first", names)));
        assert!(plugin.may_become_schedulable(&waiting, &gone(&["one"])));
        assert!(!plugin.may_become_schedulable(&waiting, &gone(&["many"])));
    }
}
