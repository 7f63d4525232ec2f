//! authorization.k8s.io: reviews of permissions, which are answered and never stored.
//!
//! Corresponds to pkg/registry/authorization/rest.

use super::row::Group;
use super::{Resource, Verb};

const AUTHORIZATION: Group =
    Group { name: "authorization.k8s.io", version: "v1", package: "io.k8s.api.authorization.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        AUTHORIZATION.namespaced("localsubjectaccessreviews", "LocalSubjectAccessReview").computed(&[Verb::Create]),
        AUTHORIZATION.cluster("selfsubjectaccessreviews", "SelfSubjectAccessReview").computed(&[Verb::Create]),
        AUTHORIZATION.cluster("selfsubjectrulesreviews", "SelfSubjectRulesReview").computed(&[Verb::Create]),
        AUTHORIZATION.cluster("subjectaccessreviews", "SubjectAccessReview").computed(&[Verb::Create]),
    ]
}
