//! `is_critical`: pods that a node does not evict, and for which it ends others.
//!
//! Corresponds to pkg/kubelet/types/pod_update.go.

use proto::kinds::api::core::v1::Pod;

/// The priority of the class `system-cluster-critical`.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_000_000;
const MIRROR: &str = "kubernetes.io/config.mirror";
const SOURCE: &str = "kubernetes.io/config.source";

/// True for a pod that its node has from elsewhere than the API server.
pub fn is_static(pod: &Pod) -> bool {
    let annotations = pod.metadata.annotations.as_ref();
    annotations.and_then(|annotations| annotations.get(SOURCE)).is_some_and(|source| source != "api")
}

/// True for a static pod, a mirror pod, and a pod of a system-critical priority.
pub fn is_critical(pod: &Pod) -> bool {
    let is_mirror = pod.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR));
    let priority = pod.spec.as_ref().and_then(|spec| spec.priority);
    is_static(pod) || is_mirror || priority.is_some_and(|p| p >= SYSTEM_CRITICAL_PRIORITY)
}
