//! The finalizers that admission gives to new objects, and that a controller removes from those that nobody uses.
//!
//! Corresponds to pkg/volume/util/finalizer.go and k8s.io/api/scheduling.

/// Keeps a claim while a pod uses it.
pub const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Keeps a volume while it is bound.
pub const PV_PROTECTION: &str = "kubernetes.io/pv-protection";
/// Keeps a VolumeAttributesClass while a claim or a volume names it.
pub const VAC_PROTECTION: &str = "kubernetes.io/vac-protection";
/// Keeps a PodGroup while pods of the group run.
pub const POD_GROUP_PROTECTION: &str = "scheduling.k8s.io/podgroup-protection";
