//! rbac.authorization.k8s.io: roles, and who has them.
//!
//! Corresponds to pkg/registry/rbac/rest.

use super::Resource;
use super::row::Group;

const RBAC: Group = Group { name: "rbac.authorization.k8s.io", version: "v1", package: "io.k8s.api.rbac.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        RBAC.cluster("clusterrolebindings", "ClusterRoleBinding"),
        RBAC.cluster("clusterroles", "ClusterRole"),
        RBAC.namespaced("rolebindings", "RoleBinding"),
        RBAC.namespaced("roles", "Role"),
    ]
}
