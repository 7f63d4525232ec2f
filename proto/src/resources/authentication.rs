//! authentication.k8s.io: reviews of identities, which are answered and never stored.
//!
//! Corresponds to pkg/registry/authentication/rest.

use super::row::Group;
use super::{Resource, Verb};

const AUTHENTICATION: Group =
    Group { name: "authentication.k8s.io", version: "v1", package: "io.k8s.api.authentication.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        AUTHENTICATION.cluster("selfsubjectreviews", "SelfSubjectReview").computed(&[Verb::Create]),
        AUTHENTICATION.cluster("tokenreviews", "TokenReview").computed(&[Verb::Create]),
    ]
}
