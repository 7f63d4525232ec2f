//! coordination.k8s.io: leases, for heartbeats and leader election.
//!
//! Corresponds to pkg/registry/coordination/rest.

use super::Resource;
use super::columns::{age, name, read, string};
use super::row::Group;

const COORDINATION: Group = Group { name: "coordination.k8s.io", version: "v1", package: "io.k8s.api.coordination.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![COORDINATION.namespaced("leases", "Lease").columns(vec![
        name(),
        string("Holder", "Who holds it.", |o, _| read::text(o, "/spec/holderIdentity")),
        age(),
    ])]
}
