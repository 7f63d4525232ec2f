//! resource.k8s.io: devices that pods claim.
//!
//! Corresponds to pkg/registry/resource/rest.

use super::Resource;
use super::fields::{SelectableField, UnknownField};
use super::row::Group;

const RESOURCE: Group = Group { name: "resource.k8s.io", version: "v1", package: "io.k8s.api.resource.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        RESOURCE.cluster("deviceclasses", "DeviceClass"),
        RESOURCE.namespaced("resourceclaims", "ResourceClaim").status(),
        RESOURCE.namespaced("resourceclaimtemplates", "ResourceClaimTemplate"),
        RESOURCE.cluster("resourceslices", "ResourceSlice").selectable(
            vec![SelectableField::at("spec.nodeName"), SelectableField::at("spec.driver")],
            UnknownField::ForGvk,
        ),
    ]
}
