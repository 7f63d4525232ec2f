//! Plugins that look at PodGroups, the pods that are scheduled together.
//!
//! Corresponds to plugin/pkg/admission/podgroup and plugin/pkg/admission/podgroupprotection. PodGroups are served only behind
//! their gate, so the plugins do not ask for it.

pub mod pod_group_protection;
pub mod pod_group_workload_exists;
