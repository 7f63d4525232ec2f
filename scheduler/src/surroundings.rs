//! `Surroundings`, the objects besides nodes and pods on which decisions depend, for the reference evaluator.

use client::{Informers, Lister};
use proto::kinds::api::apps::v1::{ReplicaSet, StatefulSet};
use proto::kinds::api::core::v1::{PersistentVolume, PersistentVolumeClaim, ReplicationController, Service};
use proto::kinds::api::policy::v1::PodDisruptionBudget;
use proto::kinds::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use proto::kinds::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment};
use scheduler_reference::{Cluster, Devices, Named, Storage, Workloads};
use std::sync::Arc;

/// The caches that plugins read too.
pub struct Surroundings {
    claims: Lister<PersistentVolumeClaim>,
    volumes: Lister<PersistentVolume>,
    classes: Lister<StorageClass>,
    drivers: Lister<CSIDriver>,
    capacities: Lister<CSIStorageCapacity>,
    csi_nodes: Lister<CSINode>,
    attachments: Lister<VolumeAttachment>,
    device_claims: Lister<ResourceClaim>,
    device_classes: Lister<DeviceClass>,
    slices: Lister<ResourceSlice>,
    services: Lister<Service>,
    replication_controllers: Lister<ReplicationController>,
    replica_sets: Lister<ReplicaSet>,
    stateful_sets: Lister<StatefulSet>,
    budgets: Lister<PodDisruptionBudget>,
}

impl Surroundings {
    pub fn new(informers: &Informers) -> Self {
        Self {
            claims: informers.of().lister(),
            volumes: informers.of().lister(),
            classes: informers.of().lister(),
            drivers: informers.of().lister(),
            capacities: informers.of().lister(),
            csi_nodes: informers.of().lister(),
            attachments: informers.of().lister(),
            device_claims: informers.of().lister(),
            device_classes: informers.of().lister(),
            slices: informers.of().lister(),
            services: informers.of().lister(),
            replication_controllers: informers.of().lister(),
            replica_sets: informers.of().lister(),
            stateful_sets: informers.of().lister(),
            budgets: informers.of().lister(),
        }
    }

    /// Returns the present objects as a cluster without nodes and pods.
    pub fn cluster(&self) -> Cluster {
        let storage = Storage {
            claims: Named::of(self.claims.list()),
            volumes: Named::of(self.volumes.list()),
            classes: Named::of(self.classes.list()),
            drivers: Named::of(self.drivers.list()),
            capacities: self.capacities.list(),
            csi_nodes: Named::of(self.csi_nodes.list()),
            attachments: self.attachments.list(),
        };
        let devices = Devices {
            claims: Named::of(self.device_claims.list()),
            classes: Named::of(self.device_classes.list()),
            slices: self.slices.list().iter().map(|slice| (**slice).clone()).collect(),
        };
        let workloads = Workloads {
            services: self.services.list(),
            replication_controllers: self.replication_controllers.list(),
            replica_sets: self.replica_sets.list(),
            stateful_sets: self.stateful_sets.list(),
        };
        Cluster {
            storage: Arc::new(storage),
            devices: Arc::new(devices),
            workloads: Arc::new(workloads),
            budgets: self.budgets.list(),
            ..Cluster::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Client;
    use client_testing::FakeServer;
    use component_base::env::Env;
    use proto::Kind;
    use serde_json::json;

    #[tokio::test(start_paused = true)]
    async fn the_evaluator_gets_the_present_objects() {
        let env = Env::simulated(1);
        let server = FakeServer::new(&env);
        let named = |api_version: &str, kind: &str| {
            let metadata = json!({"namespace": "shop", "name": "one", "uid": "one"});
            json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
        };
        for (collection, api_version, kind) in [
            ("persistentvolumeclaims", "v1", "PersistentVolumeClaim"),
            ("services", "v1", "Service"),
            ("resourceclaims.resource.k8s.io", "resource.k8s.io/v1", "ResourceClaim"),
            ("poddisruptionbudgets.policy", "policy/v1", "PodDisruptionBudget"),
        ] {
            server.put(collection, named(api_version, kind));
        }
        let client = Client::from_service(&env, server.service(), "test");
        let informers = Informers::new(&client);
        let surroundings = Surroundings::new(&informers);
        informers.start();
        assert!(informers.synced().await);
        let Cluster { storage, devices, workloads, budgets, .. } = surroundings.cluster();
        assert!(storage.claims.get_in("shop", "one").is_some() && devices.claims.get_in("shop", "one").is_some());
        assert_eq!((workloads.services[0].key(), budgets[0].key()), ("shop/one".to_owned(), "shop/one".to_owned()));
        env.drain().await;
    }
}
