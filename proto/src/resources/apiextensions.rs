//! apiextensions.k8s.io: CustomResourceDefinitions, which add rows to this table.
//!
//! Corresponds to k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition.

use super::Resource;
use super::row::Group;

const APIEXTENSIONS: Group = Group {
    name: "apiextensions.k8s.io",
    version: "v1",
    package: "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1",
};

pub(super) fn rows() -> Vec<Resource> {
    vec![
        APIEXTENSIONS
            .cluster("customresourcedefinitions", "CustomResourceDefinition")
            .stored_at("apiextensions.k8s.io/customresourcedefinitions")
            .short("crd")
            .short("crds")
            .category("api-extensions")
            .status(),
    ]
}
