//! scheduling.k8s.io: the priorities of pods, and groups of pods that are scheduled together.
//!
//! Corresponds to pkg/registry/scheduling/rest.

use super::Resource;
use super::columns::{age, flag, name, number, text};
use super::row::Group;

const SCHEDULING: Group = Group { name: "scheduling.k8s.io", version: "v1", package: "io.k8s.api.scheduling.v1" };
const ALPHA: Group =
    Group { name: "scheduling.k8s.io", version: "v1alpha2", package: "io.k8s.api.scheduling.v1alpha2" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        priority_classes(),
        ALPHA.namespaced("podgroups", "PodGroup").gated("GenericWorkload").status().columns(vec![name(), age()]),
        ALPHA.namespaced("workloads", "Workload").gated("GenericWorkload").columns(vec![name(), age()]),
    ]
}

fn priority_classes() -> Resource {
    SCHEDULING.cluster("priorityclasses", "PriorityClass").followed_by_server().short("pc").columns(vec![
        name(),
        number("Value", "The higher, the earlier.", "/value"),
        flag("Global-Default", "Whether pods without a class get this one.", "/globalDefault", false),
        age(),
        text("PreemptionPolicy", "Whether its pods may displace others.", "/preemptionPolicy"),
    ])
}
