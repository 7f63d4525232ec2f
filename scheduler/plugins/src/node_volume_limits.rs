//! NodeVolumeLimits rejects nodes whose drivers can attach no more volumes.
//!
//! A CSINode says how many volumes of a driver a node can have. Volumes that the node has already cost nothing, whoever uses
//! them. Corresponds to pkg/scheduler/framework/plugins/nodevolumelimits.

use crate::storage::{self, Storage};
use component_helpers::volumes::csi_volume::CsiVolume;
use component_helpers::volumes::{claims, pod_volumes};
use proto::Kind;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection};
use std::collections::{BTreeMap, BTreeSet};

const NAME: &str = "NodeVolumeLimits";
const TOO_MANY: &str = "node(s) exceed max volume count";

pub struct NodeVolumeLimits {
    pub storage: Storage,
}

impl NodeVolumeLimits {
    /// Returns the volumes of drivers that a pod has. A claim without a volume will get one of its class's provisioner.
    fn volumes_of(&self, pod: &PodInfo) -> BTreeSet<CsiVolume> {
        let claims = pod_volumes::with_claims(&pod.pod);
        claims.filter_map(|volume| self.volume(pod, &volume.claim, volume.is_ephemeral)).collect()
    }

    fn volume(&self, pod: &PodInfo, claim: &str, is_ephemeral: bool) -> Option<CsiVolume> {
        let claim = self.storage.claims.get(pod.namespace(), claim)?;
        if is_ephemeral && !pod_volumes::is_made_for(&claim, &pod.pod) {
            return None;
        }
        if let Some(volume) = self.storage.volume(claims::volume_name(&claim)) {
            return CsiVolume::of(&volume);
        }
        let class = self.storage.classes.get("", claims::class(&claim))?;
        // No volume of the driver has such a handle, so it counts once for each claim.
        Some(CsiVolume { driver: class.provisioner.clone(), handle: format!("claim of {}", claim.key()) })
    }

    /// Returns how many volumes of each driver a node can have; drivers without a limit are missing.
    fn limits(&self, node: &str) -> BTreeMap<String, usize> {
        let Some(csi_node) = self.storage.csi_nodes.get("", node) else { return BTreeMap::new() };
        let limit = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
        let drivers = csi_node.spec.drivers.iter();
        drivers.filter_map(|d| Some((d.name.clone(), limit(d.allocatable.as_ref()?.count)?))).collect()
    }

    /// Returns the volumes that a node has: those of its pods, and those that are attached for whatever reason.
    fn present(&self, node: &NodeInfo) -> BTreeSet<CsiVolume> {
        let mut present: BTreeSet<CsiVolume> = node.pods.iter().flat_map(|pod| self.volumes_of(pod)).collect();
        for attachment in self.storage.attachments_of(node.name()) {
            let name = attachment.spec.source.persistent_volume_name.as_deref().unwrap_or_default();
            present.extend(self.storage.volume(name).and_then(|volume| CsiVolume::of(&volume)));
        }
        present
    }
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn may_become_schedulable(&self, pod: &PodInfo, event: &ClusterEvent) -> bool {
        match event {
            ClusterEvent::AssignedPodDeleted(other) => pod_volumes::with_claims(&other.pod).next().is_some(),
            event => storage::may_offer_volume(pod, event),
        }
    }
}

impl PreFilter for NodeVolumeLimits {
    fn pre_filter(&self, state: &mut CycleState, pod: &PodInfo, _: &Snapshot) -> Result<PreFilterResult, Rejection> {
        let volumes = self.volumes_of(pod);
        if volumes.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        state.write(NAME, volumes);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        let Some(wanted) = state.read::<BTreeSet<CsiVolume>>(NAME) else { return Ok(()) };
        let limits = self.limits(node.name());
        if !wanted.iter().any(|volume| limits.contains_key(&volume.driver)) {
            return Ok(());
        }
        let present = self.present(node);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for volume in present.union(wanted) {
            *counts.entry(&volume.driver).or_default() += 1;
        }
        let is_new = |driver: &str| wanted.iter().any(|v| v.driver == driver && !present.contains(v));
        let exceeds = |(driver, limit): (&String, &usize)| {
            is_new(driver) && counts.get(driver.as_str()).is_some_and(|count| count > limit)
        };
        if limits.iter().any(exceeds) {
            return Err(Rejection::unschedulable(NAME, TOO_MANY));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestCluster, info, node, with_claims};
    use client::Lister;
    use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
    use serde_json::{Value, json};

    const DRIVER: &str = "disks.example.com";

    fn decoded<T: Kind>(value: Value) -> T {
        T::decode_value(value).unwrap()
    }

    /// A node with room for two volumes, claims `a` to `c` with a volume each, and `new-1` and `new-2` without one.
    fn plugin(attached: &[&str]) -> NodeVolumeLimits {
        let claim =
            |name: &str, spec: Value| decoded(json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}));
        let volume = |name: &str, driver: &str| {
            decoded(json!({"metadata": {"name": name}, "spec": {"csi": {"driver": driver, "volumeHandle": name}}}))
        };
        let mut claims: Vec<PersistentVolumeClaim> =
            ["a", "b", "c", "elsewhere"].map(|name| claim(name, json!({"volumeName": name}))).into();
        claims.extend(["new-1", "new-2"].map(|name| claim(name, json!({"storageClassName": "disks"}))));
        let mut volumes: Vec<PersistentVolume> = ["a", "b", "c"].map(|name| volume(name, DRIVER)).into();
        volumes.push(volume("elsewhere", "other.example.com"));
        let csi_node = json!({"metadata": {"name": "n1"}, "spec": {"drivers": [
            {"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 2}}, {"name": "other.example.com", "nodeID": "n1"},
        ]}});
        let attachment = |name: &&str| {
            decoded(
                json!({"metadata": {"name": name}, "spec": {"attacher": DRIVER, "nodeName": "n1", "source": {"persistentVolumeName": name}}}),
            )
        };
        let storage = Storage {
            claims: Lister::of(claims),
            classes: Lister::of([decoded(json!({"metadata": {"name": "disks"}, "provisioner": DRIVER}))]),
            csi_nodes: Lister::of([decoded(csi_node)]),
            ..Storage::empty().with_volumes(volumes).with_attachments(attached.iter().map(attachment))
        };
        NodeVolumeLimits { storage }
    }

    #[test]
    fn a_node_takes_as_many_volumes_as_its_driver_says() {
        for (row, (present, attached, wanted, fits)) in [
            (&["a"][..], &[][..], &["b"][..], true),
            (&["a", "b"], &[], &["c"], false),
            (&["a", "b"], &[], &["new-1"], false),
            (&["a", "b"], &[], &["a"], true),         // it is there already
            (&["a", "b"], &[], &["elsewhere"], true), // a driver without a limit
            (&["a"], &["a"], &["b"], true),           // attached and used: one volume
            (&["a"], &["b"], &["c"], false),          // attached, and used by nobody
            (&["a"], &["b"], &["b"], true),
            (&[], &[], &["new-1", "new-2"], true),
            (&["a"], &[], &["new-1", "new-2"], false),
            (&["a", "b", "c"], &[], &["a"], true), // full beyond the limit, but nothing is added
        ]
        .into_iter()
        .enumerate()
        {
            let plugin = plugin(attached);
            let mut cluster = TestCluster::new([node("n1", "a", json!({})), node("n2", "b", json!({}))]);
            cluster.place(with_claims("old", present), "n1");
            cluster.cache.update(&mut cluster.snapshot);
            let (mut state, pod) = (CycleState::default(), info(with_claims("web", wanted)));
            plugin.pre_filter(&mut state, &pod, &cluster.snapshot).unwrap();
            let judged = plugin.filter(&state, &pod, cluster.snapshot.get("n1").unwrap());
            assert_eq!(judged.is_ok(), fits, "row {row}");
            // A node without a CSINode has no limits.
            plugin.filter(&state, &pod, cluster.snapshot.get("n2").unwrap()).unwrap();
        }
    }
}
