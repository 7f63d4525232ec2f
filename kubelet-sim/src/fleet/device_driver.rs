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

impl Fleet {
    /// Brings the slices of a node to the devices that its machine has.
    pub(super) async fn publish_devices(&self, kubelet: &SimulatedKubelet) -> Result<(), Error> {
        // A node without devices may have had some, but only under a template.
        let may_have_slices = !kubelet.machine.devices.is_empty() || !self.settings.templates.is_empty();
        if self.settings.own_node().is_some() || !may_have_slices {
            return Ok(());
        }
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
}
