//! node.k8s.io: the container runtimes that pods may select.
//!
//! Corresponds to pkg/registry/node/rest.

use super::Resource;
use super::columns::{age, name, text};
use super::row::Group;

const NODE: Group = Group { name: "node.k8s.io", version: "v1", package: "io.k8s.api.node.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![NODE.cluster("runtimeclasses", "RuntimeClass").followed_by_server().columns(vec![
        name(),
        text("Handler", "What the node's runtime calls it.", "/handler"),
        age(),
    ])]
}
