//! storagemigration.k8s.io: orders to write the objects of a resource again, in the present storage version.
//!
//! Corresponds to pkg/registry/storagemigration/rest.

use super::Resource;
use super::columns::read::str_at;
use super::columns::{name, string};
use super::row::Group;
use serde_json::{Value, json};

const MIGRATION: Group =
    Group { name: "storagemigration.k8s.io", version: "v1beta1", package: "io.k8s.api.storagemigration.v1beta1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![
        MIGRATION
            .cluster("storageversionmigrations", "StorageVersionMigration")
            .gated("StorageVersionMigrator")
            .status()
            .columns(vec![name(), string("Resource", "The resource to migrate.", |o, _| json!(resource(o)))]),
    ]
}

/// Returns `deployments.apps`, or `pods` for the core group.
fn resource(migration: &Value) -> String {
    match (str_at(migration, "/spec/resource/resource"), str_at(migration, "/spec/resource/group")) {
        (resource, "") => resource.to_owned(),
        (resource, group) => format!("{resource}.{group}"),
    }
}
