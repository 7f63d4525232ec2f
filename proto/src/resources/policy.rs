//! policy: how many pods of a set may be taken away at once.
//!
//! Corresponds to pkg/registry/policy/rest.

use super::Resource;
use super::row::Group;

const POLICY: Group = Group { name: "policy", version: "v1", package: "io.k8s.api.policy.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![POLICY.namespaced("poddisruptionbudgets", "PodDisruptionBudget").short("pdb").status()]
}
