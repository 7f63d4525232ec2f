//! discovery.k8s.io: slices of the endpoints behind services.
//!
//! Corresponds to pkg/registry/discovery/rest.

use super::Resource;
use super::columns::endpoints;
use super::row::Group;

const DISCOVERY: Group = Group { name: "discovery.k8s.io", version: "v1", package: "io.k8s.api.discovery.v1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![DISCOVERY.namespaced("endpointslices", "EndpointSlice").columns(endpoints::slice_columns())]
}
