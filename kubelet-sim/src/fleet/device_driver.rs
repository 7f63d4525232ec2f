//! Publishes the ResourceSlices of the simulated drivers.
//!
//! Corresponds to k8s.io/dynamic-resource-allocation/kubeletplugin. A driver is no part of a kubelet and has an identity of
//! its own, which is here that of the fleet.
//!
//! Deviation: a process with the identity of one node publishes no ResourceSlices, because a node may not.

use crate::devices;
use crate::fleet::Fleet;
use crate::fleet::kubelet::SimulatedKubelet;
use client::{DeleteOptions, Error, ListOptions};
use proto::kinds::Kind;
use proto::kinds::api::resource::v1::ResourceSlice;
use std::sync::Arc;
use std::time::Duration;

const RETRY: Duration = Duration::from_secs(10);

impl Fleet {
    /// Brings the slices of a node to the devices that its machine has.
    pub(super) async fn publish_devices(&self, kubelet: &SimulatedKubelet) -> Result<(), Error> {
        let api = self.client.api::<ResourceSlice>("");
        let mut wanted = devices::slices(&kubelet.machine, &kubelet.node_uid());
        let of_node = ListOptions::fields(format!("spec.nodeName={}", kubelet.machine.name));
        for stored in api.list(&of_node).await?.items {
            match wanted.remove(stored.name()) {
                Some(slice) if devices::is_current(&stored, &slice) => {}
                Some(mut slice) => {
                    slice.metadata.resource_version.clone_from(&stored.metadata.resource_version);
                    slice.spec.pool.generation = stored.spec.pool.generation + 1;
                    api.update(&slice).await?;
                }
                None => api.delete(stored.name(), &DeleteOptions::with_uid(stored.uid())).await?,
            }
        }
        for slice in wanted.into_values() {
            match api.create(&slice).await {
                Err(error) if !error.is_already_exists() => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Deletes the slices of nodes whose machines had devices in an earlier run and have none now.
    pub(super) async fn drop_left_over_slices(self: Arc<Self>) {
        let shutdown = self.env.shutdown().clone();
        while let Err(error) = self.try_drop_left_over_slices().await {
            tracing::warn!(%error, "left-over ResourceSlices are not deleted");
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return,
                () = self.env.sleep(RETRY) => {}
            }
        }
    }

    async fn try_drop_left_over_slices(&self) -> Result<(), Error> {
        let api = self.client.api::<ResourceSlice>("");
        for slice in api.list(&ListOptions::default()).await?.items {
            let node = slice.spec.node_name.as_deref().unwrap_or_default();
            if self.members.named(node).is_some_and(|kubelet| kubelet.machine.devices.is_empty()) {
                api.delete(slice.name(), &DeleteOptions::with_uid(slice.uid())).await?;
            }
        }
        Ok(())
    }
}
