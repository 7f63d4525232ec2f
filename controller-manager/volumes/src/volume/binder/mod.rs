//! The PersistentVolume binder: gives each claim one volume and each volume at most one claim, and takes released volumes back.
//!
//! A claim and its volume refer to each other. The volume's `claimRef` is written first, under the volume's version: of two
//! claims that choose one volume, the server accepts one. Then the claim gets `volumeName`, and then both get their phase.
//! Each round plans what the caches lack, so it may end after any of these writes.
//!
//! Read `component_helpers::volumes::matching` (which volume fits), then `bind`, `claim_plan`, `volume_plan`. Corresponds to
//! pkg/controller/volume/persistentvolume.

pub mod bind;
pub mod provisioning;
pub mod claim_plan;
pub mod reclaim;
pub mod volume_plan;
pub mod observe;
pub mod metrics;
pub mod said;
pub mod controller;

#[cfg(test)]
mod claim_tests;
#[cfg(test)]
mod volume_tests;
#[cfg(test)]
mod model_tests;
