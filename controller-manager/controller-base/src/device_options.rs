//! `DeviceOptions`: the flags of the controllers of devices.
//!
//! Corresponds to ResourceClaimControllerConfiguration and DeviceTaintEvictionControllerConfiguration in
//! cmd/kube-controller-manager/app/options.

use clap::Args;

#[derive(Args, Clone, Debug)]
pub struct DeviceOptions {
    /// Pods and resource claims that are reconciled concurrently
    #[arg(long, default_value_t = 50)]
    pub concurrent_resourceclaim_syncs: usize,
    /// Pods whose eviction from tainted devices is decided concurrently
    #[arg(long, default_value_t = 8)]
    pub concurrent_device_taint_eviction_syncs: usize,
}
