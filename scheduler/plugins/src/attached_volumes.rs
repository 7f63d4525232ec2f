//! `AttachedVolumes`: the volumes of CSI drivers that each node has, and how many it can have.
//!
//! Invariant: what is kept equals what the caches say now. A node is read again when it or its pods change, or when a claim, a
//! volume, an attachment or its CSINode does; all others stay. Most nodes stay from one scheduling cycle to the next.
//! Corresponds to the counts of pkg/scheduler/framework/plugins/nodevolumelimits/csi.go.

use crate::storage::{Change, Storage};
use component_helpers::volumes::csi_volume::CsiVolume;
use component_helpers::volumes::{claims, pod_volumes};
use parking_lot::Mutex;
use proto::Kind;
use proto::meta::owner::controller_of;
use scheduling_framework::cache::NodeInfo;
use scheduling_framework::pod_info::PodInfo;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Clones share what is kept.
#[derive(Clone)]
pub struct AttachedVolumes {
    storage: Storage,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Default)]
struct Kept {
    /// By namespace and name.
    claims: BTreeMap<String, KeptClaim>,
    /// The claims that name a volume, whether it exists or not.
    claims_of_volume: BTreeMap<String, BTreeSet<String>>,
    /// The nodes to which a volume is attached.
    nodes_of_volume: BTreeMap<String, BTreeSet<usize>>,
    /// By the node's number in the snapshot.
    nodes: Vec<Option<OfNode>>,
    /// The numbers under which nodes are kept.
    numbers: BTreeMap<String, usize>,
}

#[derive(Default)]
struct KeptClaim {
    volume: Option<CsiVolume>,
    /// Uid of the claim's controller.
    controller: Option<String>,
    /// The kept nodes that have pods with the claim.
    nodes: BTreeSet<usize>,
}

/// The volumes of one node.
#[derive(Default)]
pub struct OfNode {
    /// `NodeInfo::counted_generation` of the node.
    generation: u64,
    /// How many volumes of a driver the node can have; drivers without a limit are missing.
    limits: BTreeMap<String, usize>,
    /// The volumes of drivers with a limit: those of the node's pods, and those that are attached for whatever reason.
    present: BTreeMap<String, BTreeSet<String>>,
}

/// The volumes that a pod needs: their handles by driver.
pub type Wanted = BTreeMap<String, BTreeSet<String>>;

impl OfNode {
    /// Returns true if the node would have too many volumes. Those that it has already cost nothing.
    pub fn is_exceeded_by(&self, wanted: &Wanted) -> bool {
        let exceeds = |driver: &String, handles: &BTreeSet<String>| {
            let Some(limit) = self.limits.get(driver) else { return false };
            let present = self.present.get(driver);
            let count = present.map_or(0, BTreeSet::len);
            if count + handles.len() <= *limit {
                return false;
            }
            let is_new = |handle: &&String| present.is_none_or(|present| !present.contains(*handle));
            let new = handles.iter().filter(is_new).count();
            new > 0 && count + new > *limit
        };
        wanted.iter().any(|(driver, handles)| exceeds(driver, handles))
    }
}

impl AttachedVolumes {
    pub fn new(storage: Storage) -> Self {
        let kept = Arc::<Mutex<Kept>>::default();
        let changed = kept.clone();
        storage.on_change(move |change| changed.lock().apply(change));
        Self { storage, kept }
    }

    /// Returns the volumes of drivers that a pod has.
    pub fn wanted(&self, pod: &PodInfo) -> Wanted {
        let mut wanted = Wanted::new();
        self.kept.lock().each_of(&self.storage, pod, None, |volume| add(&mut wanted, volume.clone()));
        wanted
    }

    /// Returns true if the node would have too many volumes with those that are wanted. `number` is that of the node in the
    /// snapshot. What is read of a node without one is not kept, because it may be hypothetical.
    pub fn is_exceeded(&self, number: Option<usize>, node: &NodeInfo, wanted: &Wanted) -> bool {
        let mut kept = self.kept.lock();
        let known = number.or_else(|| kept.numbers.get(node.name()).copied());
        let known = known.and_then(|number| kept.nodes.get(number)?.as_ref());
        if let Some(known) = known.filter(|known| known.generation == node.counted_generation && known.generation != 0)
        {
            return known.is_exceeded_by(wanted);
        }
        let read = kept.read(&self.storage, number, node);
        let is_exceeded = read.is_exceeded_by(wanted);
        if let Some(number) = number {
            kept.keep(number, node.name(), read);
        }
        is_exceeded
    }
}

impl Kept {
    /// Forgets what a change may concern.
    fn apply(&mut self, change: &Change<'_>) {
        match change {
            Change::Claim(key) => self.forget_claim(key),
            Change::Volume(name) => {
                self.claims_of_volume.remove(*name).iter().flatten().for_each(|key| self.forget_claim(key));
                self.nodes_of_volume.remove(*name).iter().flatten().for_each(|node| self.forget(*node));
            }
            Change::OfNode(name) => {
                if let Some(number) = self.numbers.remove(*name) {
                    self.forget(number);
                }
            }
            // The drivers of all claims without a volume may change.
            Change::Class => *self = Self::default(),
        }
    }

    fn forget(&mut self, node: usize) {
        if let Some(kept) = self.nodes.get_mut(node) {
            *kept = None;
        }
    }

    fn forget_claim(&mut self, key: &str) {
        let known = self.claims.remove(key);
        known.iter().flat_map(|claim| &claim.nodes).for_each(|node| self.forget(*node));
    }

    fn keep(&mut self, number: usize, name: &str, read: OfNode) {
        match self.numbers.insert(name.to_owned(), number) {
            Some(before) if before != number => self.forget(before),
            _ => {}
        }
        if self.nodes.len() <= number {
            self.nodes.resize_with(number + 1, || None);
        }
        self.nodes[number] = Some(read);
    }

    /// Reads the volumes of a node from the caches.
    fn read(&mut self, storage: &Storage, number: Option<usize>, node: &NodeInfo) -> OfNode {
        let limit = |count: Option<i32>| count.and_then(|count| usize::try_from(count).ok());
        let csi_node = storage.csi_nodes.get("", node.name());
        let drivers = csi_node.iter().flat_map(|csi_node| &csi_node.spec.drivers);
        let limits: BTreeMap<String, usize> =
            drivers.filter_map(|d| Some((d.name.clone(), limit(d.allocatable.as_ref()?.count)?))).collect();
        let mut found = OfNode { generation: node.counted_generation, limits, ..OfNode::default() };
        if found.limits.is_empty() {
            return found;
        }
        let OfNode { limits, present, .. } = &mut found;
        let mut count = |volume: CsiVolume| {
            if limits.contains_key(&volume.driver) {
                add(present, volume);
            }
        };
        for pod in &node.pods {
            self.each_of(storage, pod, number, |volume| count(volume.clone()));
        }
        for attachment in storage.attachments_of(node.name()) {
            let Some(name) = &attachment.spec.source.persistent_volume_name else { continue };
            if let Some(number) = number {
                self.nodes_of_volume.entry(name.clone()).or_default().insert(number);
            }
            storage.volume(name).and_then(|volume| CsiVolume::of(&volume)).into_iter().for_each(&mut count);
        }
        found
    }

    /// Calls `found` for each volume of a driver that a pod has. `node` is where the pod runs, as far as that is kept.
    fn each_of(&mut self, storage: &Storage, pod: &PodInfo, node: Option<usize>, mut found: impl FnMut(&CsiVolume)) {
        for volume in pod_volumes::with_claims(&pod.pod) {
            let claim = self.claim(storage, pod.namespace(), &volume.claim);
            claim.nodes.extend(node);
            if volume.is_ephemeral && claim.controller.as_deref() != Some(pod.uid()) {
                continue;
            }
            claim.volume.iter().for_each(&mut found);
        }
    }

    /// Returns a claim. One without a volume will get one of its class's provisioner.
    fn claim(&mut self, storage: &Storage, namespace: &str, name: &str) -> &mut KeptClaim {
        let Self { claims: kept, claims_of_volume, .. } = self;
        kept.entry(format!("{namespace}/{name}")).or_insert_with_key(|key| {
            let Some(claim) = storage.claims.get(namespace, name) else { return KeptClaim::default() };
            let controller = controller_of(&claim.metadata).map(|owner| owner.uid.clone());
            let volume_name = claims::volume_name(&claim);
            if !volume_name.is_empty() {
                claims_of_volume.entry(volume_name.to_owned()).or_default().insert(key.clone());
            }
            let volume = match storage.volume(volume_name) {
                Some(volume) => CsiVolume::of(&volume),
                // No volume of the driver has such a handle, so it counts once for each claim.
                None => storage.classes.get("", claims::class(&claim)).map(|class| CsiVolume {
                    driver: class.provisioner.clone(),
                    handle: format!("claim of {}", claim.key()),
                }),
            };
            KeptClaim { volume, controller, nodes: BTreeSet::new() }
        })
    }
}

fn add(volumes: &mut BTreeMap<String, BTreeSet<String>>, volume: CsiVolume) {
    volumes.entry(volume.driver).or_default().insert(volume.handle);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{TestCluster, info, node, with_claims};
    use client::Lister;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    const DRIVERS: [&str; 2] = ["disks.example.com", "files.example.com"];
    const CLAIMS: [&str; 4] = ["c0", "c1", "c2", "c3"];

    /// One change of the cluster. Numbers say which object, and what it becomes.
    #[derive(Clone, Debug)]
    enum Step {
        /// A claim is removed, waits for a volume, or has one.
        Claim(usize, usize),
        /// A volume is removed, or belongs to a driver.
        Volume(usize, usize),
        /// The provisioner of the class of all claims.
        Class(usize),
        /// What is attached to a node.
        Attachment(usize, Option<usize>),
        /// How many volumes a node can have.
        CsiNode(usize, Option<i32>),
        /// A pod with two claims comes to a node.
        Pod(usize, usize, usize),
        /// The node goes, and those after it get other numbers.
        NodeRemoved(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..4_usize, 0..5_usize).prop_map(|(claim, to)| Step::Claim(claim, to)),
            (0..3_usize, 0..3_usize).prop_map(|(volume, to)| Step::Volume(volume, to)),
            (0..2_usize).prop_map(Step::Class),
            (0..3_usize, prop::option::of(0..3_usize)).prop_map(|(node, volume)| Step::Attachment(node, volume)),
            (0..3_usize, prop::option::of(0..4_i32)).prop_map(|(node, count)| Step::CsiNode(node, count)),
            (0..3_usize, 0..4_usize, 0..4_usize).prop_map(|(node, a, b)| Step::Pod(node, a, b)),
            (0..3_usize).prop_map(Step::NodeRemoved),
        ]
    }

    /// The objects by name.
    type Objects = BTreeMap<String, Value>;

    fn lister<T: Kind>(objects: &Objects) -> Lister<T> {
        Lister::of(objects.values().map(|object| T::decode_value(object.clone()).unwrap()))
    }

    #[derive(Default)]
    struct World {
        claims: Objects,
        volumes: Objects,
        class: usize,
        attachments: Objects,
        csi_nodes: Objects,
        pods: usize,
    }

    impl World {
        fn storage(&self) -> Storage {
            let class = json!({"metadata": {"name": "class"}, "provisioner": DRIVERS[self.class]});
            Storage {
                claims: lister(&self.claims),
                classes: Lister::of([Kind::decode_value(class).unwrap()]),
                csi_nodes: lister(&self.csi_nodes),
                ..Storage::empty()
                    .with_volumes(self.volumes.values().cloned().map(|it| Kind::decode_value(it).unwrap()))
                    .with_attachments(self.attachments.values().cloned().map(|it| Kind::decode_value(it).unwrap()))
            }
        }

        /// Applies a change, and tells of it as the informers do.
        fn apply(&mut self, step: &Step, kept: &mut AttachedVolumes, cluster: &mut TestCluster) {
            let set = |objects: &mut Objects, name: &str, object: Option<Value>| match object {
                Some(object) => drop(objects.insert(name.to_owned(), object)),
                None => drop(objects.remove(name)),
            };
            let name;
            let mut changes = Vec::new();
            match *step {
                Step::Claim(claim, to) => {
                    let mut spec = json!({"storageClassName": "class"});
                    if to >= 2 {
                        spec["volumeName"] = json!(format!("v{}", to - 2));
                    }
                    let object = json!({"metadata": {"namespace": "shop", "name": CLAIMS[claim]}, "spec": spec});
                    set(&mut self.claims, CLAIMS[claim], (to > 0).then_some(object));
                    name = format!("shop/{}", CLAIMS[claim]);
                    changes.push(Change::Claim(&name));
                }
                Step::Volume(volume, to) => {
                    name = format!("v{volume}");
                    let object = |driver: usize| json!({"metadata": {"name": name}, "spec": {"csi": {"driver": DRIVERS[driver], "volumeHandle": name}}});
                    set(&mut self.volumes, &name, to.checked_sub(1).map(object));
                    changes.push(Change::Volume(&name));
                }
                Step::Class(class) => {
                    self.class = class;
                    changes.push(Change::Class);
                }
                Step::Attachment(node, volume) => {
                    name = format!("n{node}");
                    let object = |volume: usize| {
                        json!({"metadata": {"name": name}, "spec": {"attacher": DRIVERS[0], "nodeName": name,
                            "source": {"persistentVolumeName": format!("v{volume}")}}})
                    };
                    set(&mut self.attachments, &name, volume.map(object));
                    changes.push(Change::OfNode(&name));
                }
                Step::CsiNode(node, count) => {
                    name = format!("n{node}");
                    let driver = |driver: &str, count: i32| json!({"name": driver, "nodeID": "x", "allocatable": {"count": count}});
                    let object = |count: i32| json!({"metadata": {"name": name}, "spec": {"drivers": [driver(DRIVERS[0], count), driver(DRIVERS[1], 1)]}});
                    set(&mut self.csi_nodes, &name, count.map(object));
                    changes.push(Change::OfNode(&name));
                }
                Step::Pod(at, a, b) => {
                    self.pods += 1;
                    cluster.cache.set_node(node(&format!("n{at}"), "a", json!({})));
                    cluster.place(with_claims(&format!("p{}", self.pods), &[CLAIMS[a], CLAIMS[b]]), &format!("n{at}"));
                }
                Step::NodeRemoved(at) => cluster.cache.remove_node(&format!("n{at}")),
            }
            kept.storage = self.storage();
            changes.iter().for_each(|change| kept.kept.lock().apply(change));
            cluster.cache.update(&mut cluster.snapshot);
        }
    }

    proptest! {
        /// After any history, what is kept answers as what is read anew.
        #[test]
        fn kept_volumes_equal_those_read_anew(history in prop::collection::vec(step(), 1..30)) {
            let nodes = ["n0", "n1", "n2"].map(|name| node(name, "a", json!({})));
            let (mut world, mut cluster) = (World::default(), TestCluster::new(nodes));
            let mut kept = AttachedVolumes::new(world.storage());
            let pods = CLAIMS.map(|claim| info(with_claims("web", &[claim, "c0"])));
            for step in &history {
                world.apply(step, &mut kept, &mut cluster);
                let anew = AttachedVolumes::new(world.storage());
                for pod in &pods {
                    let wanted = kept.wanted(pod);
                    prop_assert_eq!(&wanted, &anew.wanted(pod));
                    for (number, node) in cluster.snapshot.nodes().iter().enumerate() {
                        let answers = [kept.is_exceeded(Some(number), node, &wanted), kept.is_exceeded(None, node, &wanted)];
                        prop_assert_eq!(answers, [anew.is_exceeded(None, node, &wanted); 2], "{}", node.name());
                    }
                }
            }
        }
    }
}
