//! `Cluster`: the objects that a decision depends on, as the API has them.

use crate::{Labels, NO_LABELS};
use proto::Kind;
use proto::kinds::api::apps::v1::{ReplicaSet, StatefulSet};
use proto::kinds::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod, ReplicationController, Service};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proto::kinds::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The objects of a kind by their keys: namespace and name, or the name alone.
#[derive(Clone, Debug)]
pub struct Named<T>(BTreeMap<String, Arc<T>>);

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Kind> FromIterator<T> for Named<T> {
    fn from_iter<I: IntoIterator<Item = T>>(objects: I) -> Self {
        Self::of(objects.into_iter().map(Arc::new))
    }
}

impl<T: Kind> Named<T> {
    pub fn of(objects: impl IntoIterator<Item = Arc<T>>) -> Self {
        Self(objects.into_iter().map(|object| (object.key(), object)).collect())
    }

    pub fn set(&mut self, object: T) {
        self.0.insert(object.key(), Arc::new(object));
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|object| &**object)
    }

    /// Returns an object without a namespace.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.0.get(name).map(|object| &**object)
    }

    pub fn get_in(&self, namespace: &str, name: &str) -> Option<&T> {
        self.get(&format!("{namespace}/{name}"))
    }
}

/// A driver and the name of one of its pools.
pub type Pool = (String, String);

/// ResourceSlices by the pools that they describe.
#[derive(Clone, Debug, Default)]
pub struct Slices {
    pools: BTreeMap<Pool, Vec<ResourceSlice>>,
    /// The pools with a slice of one node, by its name.
    of_node: BTreeMap<String, BTreeSet<Pool>>,
    /// The pools with a slice that several nodes may reach.
    of_several: BTreeSet<Pool>,
}

impl FromIterator<ResourceSlice> for Slices {
    fn from_iter<I: IntoIterator<Item = ResourceSlice>>(slices: I) -> Self {
        let mut all = Self::default();
        for slice in slices {
            let spec = &slice.spec;
            let pool = (spec.driver.clone(), spec.pool.name.clone());
            let node = spec.node_name.as_ref().filter(|name| !name.is_empty());
            match node.filter(|_| spec.per_device_node_selection != Some(true)) {
                Some(node) => all.of_node.entry(node.clone()).or_default().insert(pool.clone()),
                None => all.of_several.insert(pool.clone()),
            };
            all.pools.entry(pool).or_default().push(slice);
        }
        all
    }
}

impl Slices {
    /// Returns the pools that may have a device in reach of a node, with all of their slices.
    pub fn near(&self, node: &str) -> BTreeMap<&Pool, &[ResourceSlice]> {
        let pools = self.of_node.get(node).into_iter().flatten().chain(&self.of_several);
        pools.filter_map(|pool| Some((pool, self.pools.get(pool)?.as_slice()))).collect()
    }
}

/// Services and workload controllers. They give the selectors of default spreading.
#[derive(Clone, Debug, Default)]
pub struct Workloads {
    pub services: Vec<Arc<Service>>,
    pub replication_controllers: Vec<Arc<ReplicationController>>,
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    pub stateful_sets: Vec<Arc<StatefulSet>>,
}

/// Everything about volumes.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    pub claims: Named<PersistentVolumeClaim>,
    pub volumes: Named<PersistentVolume>,
    pub classes: Named<StorageClass>,
    pub drivers: Named<CSIDriver>,
    pub capacities: Vec<Arc<CSIStorageCapacity>>,
    pub csi_nodes: Named<CSINode>,
    pub attachments: Vec<Arc<VolumeAttachment>>,
}

/// Everything about devices.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    pub claims: Named<ResourceClaim>,
    pub classes: Named<DeviceClass>,
    pub slices: Slices,
}

/// The objects of a cluster. A copy is cheap, because copies share the objects.
#[derive(Clone, Debug, Default)]
pub struct Cluster {
    pub namespaces: BTreeMap<String, Labels>,
    pub nodes: BTreeMap<String, Arc<Node>>,
    /// Pods by the name of their node, which may not exist, and then by uid.
    pub pods: BTreeMap<String, BTreeMap<String, Arc<Pod>>>,
    /// Name of the node of each pod, by uid. `place` and `remove` keep it.
    pub node_names: BTreeMap<String, String>,
    /// Pods that preemption has nominated to a node, by the node's name and then by uid. They are in no node yet.
    pub nominated: BTreeMap<String, BTreeMap<String, Arc<Pod>>>,
    pub workloads: Arc<Workloads>,
    pub storage: Arc<Storage>,
    pub devices: Arc<Devices>,
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
}

impl Cluster {
    /// Puts a pod on a node, and removes it from the node where it was.
    pub fn place(&mut self, pod: Arc<Pod>, node: &str) {
        self.remove(pod.uid());
        self.node_names.insert(pod.uid().to_owned(), node.to_owned());
        self.pods.entry(node.to_owned()).or_default().insert(pod.uid().to_owned(), pod);
    }

    pub fn remove(&mut self, uid: &str) {
        let Some(node) = self.node_names.remove(uid) else { return };
        if let Some(pods) = self.pods.get_mut(&node) {
            pods.remove(uid);
            if pods.is_empty() {
                self.pods.remove(&node);
            }
        }
    }

    pub fn set_node(&mut self, node: Arc<Node>) {
        self.nodes.insert(node.name().to_owned(), node);
    }

    pub fn pods_on(&self, node: &Node) -> impl Iterator<Item = &Arc<Pod>> {
        self.pods.get(node.name()).into_iter().flat_map(BTreeMap::values)
    }

    /// Returns every pod whose node exists, with the node.
    pub fn placed(&self) -> impl Iterator<Item = (&Pod, &Node)> {
        self.nodes_with_pods().flat_map(|(node, pods)| pods.map(move |pod| (pod, node)))
    }

    /// Returns each node with its pods.
    pub fn nodes_with_pods(&self) -> impl Iterator<Item = (&Node, impl Iterator<Item = &Pod>)> {
        // Both maps have the names in the same order.
        let mut pods = self.pods.iter().peekable();
        self.nodes.iter().map(move |(name, node)| {
            while pods.next_if(|(before, _)| *before < name).is_some() {}
            let own = pods.next_if(|(same, _)| *same == name);
            (&**node, own.into_iter().flat_map(|(_, pods)| pods.values().map(|pod| &**pod)))
        })
    }

    /// Returns the class that backs an extended resource: of several the newest, and then the first by name.
    pub(crate) fn backing(&self, resource: &str) -> Option<&DeviceClass> {
        let implicit = resource.strip_prefix("deviceclass.resource.kubernetes.io/");
        let backs = |class: &&DeviceClass| {
            class.spec.extended_resource_name.as_deref() == Some(resource) || implicit == Some(class.name())
        };
        let classes: Vec<&DeviceClass> = self.devices.classes.iter().filter(backs).collect();
        let age = |class: &&DeviceClass| class.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let newest = classes.iter().map(age).max()?;
        classes.into_iter().find(|class| age(class) == newest)
    }

    pub(crate) fn namespace_labels(&self, namespace: &str) -> &Labels {
        self.namespaces.get(namespace).unwrap_or(&NO_LABELS)
    }
}
