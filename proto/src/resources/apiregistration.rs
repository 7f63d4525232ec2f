//! apiregistration.k8s.io: APIServices, which announce each group and version and may point to another server.
//!
//! Corresponds to k8s.io/kube-aggregator/pkg/registry/apiservice.

use super::Resource;
use super::row::Group;

const APIREGISTRATION: Group = Group {
    name: "apiregistration.k8s.io",
    version: "v1",
    package: "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
};

pub(super) fn rows() -> Vec<Resource> {
    vec![
        APIREGISTRATION
            .cluster("apiservices", "APIService")
            .stored_at("apiregistration.k8s.io/apiservices")
            .category("api-extensions")
            .status(),
    ]
}
