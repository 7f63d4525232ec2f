//! NodeVolumeLimits rejects nodes whose drivers can attach no more volumes.
//!
//! A CSINode says how many volumes of a driver a node can have. Volumes that the node has already cost nothing, whoever uses
//! them. Corresponds to pkg/scheduler/framework/plugins/nodevolumelimits.

use crate::attached_volumes::{AttachedVolumes, Wanted};
use crate::storage;
use component_helpers::volumes::pod_volumes;
use scheduling_framework::cache::{NodeInfo, Snapshot};
use scheduling_framework::node_judge::FilterByNumber;
use scheduling_framework::pod_info::PodInfo;
use scheduling_framework::{ClusterEvent, CycleState, Filter, Plugin, PreFilter, PreFilterResult, Rejection};
use std::sync::Arc;

const NAME: &str = "NodeVolumeLimits";
const TOO_MANY: &str = "node(s) exceed max volume count";

pub struct NodeVolumeLimits {
    pub volumes: AttachedVolumes,
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
        let wanted = self.volumes.wanted(pod);
        if wanted.is_empty() {
            return Ok(PreFilterResult::Skip);
        }
        state.write(NAME, wanted);
        Ok(PreFilterResult::AllNodes)
    }
}

impl Filter for NodeVolumeLimits {
    fn filter(&self, state: &CycleState, _pod: &PodInfo, node: &NodeInfo) -> Result<(), Rejection> {
        match state.read::<Wanted>(NAME) {
            Some(wanted) if self.volumes.is_exceeded(None, node, wanted) => Err(too_many()),
            _ => Ok(()),
        }
    }

    fn by_number<'a>(
        &'a self,
        state: &'a CycleState,
        _pod: &'a PodInfo,
        snapshot: &'a Snapshot,
    ) -> Option<FilterByNumber<'a>> {
        let (wanted, rejection) = (state.read::<Wanted>(NAME)?, Arc::new(too_many()));
        Some(FilterByNumber::of_nodes(move |number| {
            let is_exceeded = self.volumes.is_exceeded(Some(number), &snapshot.nodes()[number], wanted);
            is_exceeded.then(|| rejection.clone())
        }))
    }
}

fn too_many() -> Rejection {
    Rejection::unschedulable(NAME, TOO_MANY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestCluster, info, node, with_claims};
    use crate::storage::Storage;
    use client::Lister;
    use proto::Kind;
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
        NodeVolumeLimits { volumes: AttachedVolumes::new(storage) }
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
