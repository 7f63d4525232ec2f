//! coordination.k8s.io: leases, for heartbeats and leader election.
//!
//! Corresponds to pkg/registry/coordination/rest.

use super::Resource;
use super::columns::{age, name, text};
use super::row::Group;

const COORDINATION: Group = Group { name: "coordination.k8s.io", version: "v1", package: "io.k8s.api.coordination.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![COORDINATION.namespaced("leases", "Lease").columns(vec![
        name(),
        text("Holder", "Who holds it.", "/spec/holderIdentity"),
        age(),
    ])]
}
