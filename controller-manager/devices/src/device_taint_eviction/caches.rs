//! The caches that the controller observes: pods, claims, slices, and the rules that taint devices.
//!
//! Corresponds to the listers of pkg/controller/devicetainteviction/device_taint_eviction.go.

use super::eviction::{Observed, pool_key, selects};
use crate::pod_claims::{claim_keys, consumers, devices, is_pod};
use client::{Lister, cached};
use proto::Kind;
use proto::kinds::api::core::v1::Pod;
use proto::kinds::api::resource::v1::{DeviceRequestAllocationResult, ResourceClaim, ResourceSlice};
use proto::kinds::api::resource::v1beta2::DeviceTaintRule;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Slices, and the claims with devices of them, by the key of their pool.
pub const BY_POOL: &str = "pool";

pub struct Caches {
    pub pods: Lister<Pod>,
    pub claims: Lister<ResourceClaim>,
    pub slices: Lister<ResourceSlice>,
    /// `None` if the API server serves no rules.
    pub rules: Option<Lister<DeviceTaintRule>>,
}

/// Returns the keys of the pods that a claim is reserved for.
pub fn users(claim: &ResourceClaim) -> impl Iterator<Item = String> {
    let pods = consumers(claim).iter().filter(|consumer| is_pod(consumer));
    pods.map(move |pod| cached::key(claim.namespace(), &pod.name))
}

impl Caches {
    pub fn rules(&self) -> Vec<Arc<DeviceTaintRule>> {
        self.rules.as_ref().map(Lister::list).unwrap_or_default()
    }

    /// Observes a pod, its claims and their devices, as if there were these rules.
    pub fn observe(&self, pod: Arc<Pod>, rules: Vec<Arc<DeviceTaintRule>>) -> Observed {
        let claims: BTreeMap<_, _> = claim_keys(&pod)
            .iter()
            .filter_map(|key| self.claims.by_key(key))
            .map(|claim| (claim.name().to_owned(), claim))
            .collect();
        let pools = claims.values().flat_map(|claim| devices(claim)).map(|it| pool_key(&it.driver, &it.pool));
        let pools: BTreeSet<String> = pools.collect();
        let slices = pools.into_iter().map(|pool| (pool.clone(), self.slices.by_index(BY_POOL, &pool))).collect();
        Observed { pod, claims, slices, rules, was_scheduled: false }
    }

    /// Returns the claims with devices that a rule selects.
    pub fn claims_of(&self, rule: &DeviceTaintRule) -> Vec<Arc<ResourceClaim>> {
        let is_selected = |it: &DeviceRequestAllocationResult| selects(rule, &it.driver, &it.pool, &it.device);
        self.claims.filter("", |claim| devices(claim).any(is_selected))
    }
}
