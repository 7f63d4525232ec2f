//! The order of API groups and versions in discovery, and the priorities of the APIServices that announce them.
//!
//! Corresponds to DefaultGenericAPIServicePriorities in pkg/controlplane/apiserver/aggregator.go.

use crate::gvk::compare_versions;
use std::cmp::Ordering;

/// `groupPriorityMinimum` and `versionPriority` of an APIService.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    pub group: i32,
    pub version: i32,
}

const GROUPS: &[(&str, i32)] = &[
    ("apiregistration.k8s.io", 20000),
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 15800),
];

/// The priorities of the groups and versions of custom resources.
const CUSTOM: Priority = Priority { group: 1000, version: 100 };

/// Returns the priorities of a served version.
pub fn priority(group: &str, version: &str) -> Priority {
    match GROUPS.iter().find(|(name, _)| *name == group) {
        None => CUSTOM,
        Some((_, minimum)) => {
            let version = match (group, version) {
                ("autoscaling", "v2") => 30,
                ("", _) => 1,
                (_, version) if version.contains("alpha") => 9,
                (_, version) if version.contains("beta") => 12,
                _ => 15,
            };
            Priority { group: *minimum, version }
        }
    }
}

/// Orders groups by priority, the highest first, and then by name.
pub fn compare_groups(a: &str, b: &str) -> Ordering {
    priority(b, "").group.cmp(&priority(a, "").group).then_with(|| a.cmp(b))
}

/// Orders the versions of a group by preference.
pub fn compare_group_versions(group: &str, a: &str, b: &str) -> Ordering {
    priority(group, b).version.cmp(&priority(group, a).version).then_with(|| compare_versions(a, b))
}
