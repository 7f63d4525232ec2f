//! scheduling.k8s.io: the priorities of pods.
//!
//! Corresponds to pkg/registry/scheduling/rest.

use super::Resource;
use super::columns::{age, flag, name, number, text};
use super::row::Group;

const SCHEDULING: Group = Group { name: "scheduling.k8s.io", version: "v1", package: "io.k8s.api.scheduling.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![SCHEDULING.cluster("priorityclasses", "PriorityClass").followed_by_server().short("pc").columns(vec![
        name(),
        number("Value", "The higher, the earlier.", "/value"),
        flag("Global-Default", "Whether pods without a class get this one.", "/globalDefault", false),
        age(),
        text("PreemptionPolicy", "Whether its pods may displace others.", "/preemptionPolicy"),
    ])]
}
