//! flowcontrol.apiserver.k8s.io: how requests share the server.
//!
//! Corresponds to pkg/registry/flowcontrol/rest.

use super::Resource;
use super::row::Group;

const FLOWCONTROL: Group =
    Group { name: "flowcontrol.apiserver.k8s.io", version: "v1", package: "io.k8s.api.flowcontrol.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        FLOWCONTROL.cluster("flowschemas", "FlowSchema").status(),
        FLOWCONTROL.cluster("prioritylevelconfigurations", "PriorityLevelConfiguration").status(),
    ]
}
