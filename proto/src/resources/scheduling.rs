//! scheduling.k8s.io: which pods go first.
//!
//! Corresponds to pkg/registry/scheduling/rest.

use super::Resource;
use super::columns::{age, boolean, integer, name, read, string};
use super::row::Group;

const SCHEDULING: Group = Group { name: "scheduling.k8s.io", version: "v1", package: "io.k8s.api.scheduling.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![SCHEDULING.cluster("priorityclasses", "PriorityClass").short("pc").columns(vec![
        name(),
        integer("Value", "The higher, the earlier.", |o, _| read::number(o, "/value")),
        boolean("Global-Default", "Whether pods without a class get this one.", |o, _| {
            read::flag_or(o, "/globalDefault", false)
        }),
        age(),
        string("PreemptionPolicy", "Whether its pods may displace others.", |o, _| read::text(o, "/preemptionPolicy")),
    ])]
}
