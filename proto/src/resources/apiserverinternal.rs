//! internal.apiserver.k8s.io: the versions in which API servers store objects.
//!
//! Corresponds to pkg/registry/apiserverinternal/rest.

use super::Resource;
use super::columns::read::{items, joined, str_at, text_or};
use super::columns::{age, name, string};
use super::row::Group;
use serde_json::{Value, json};

const INTERNAL: Group =
    Group { name: "internal.apiserver.k8s.io", version: "v1alpha1", package: "io.k8s.api.apiserverinternal.v1alpha1" };

pub(super) fn rows() -> Vec<Resource> {
    vec![INTERNAL.cluster("storageversions", "StorageVersion").gated("StorageVersionAPI").status().columns(vec![
        name(),
        string("CommonEncodingVersion", "The version in which all servers store objects.", |o, _| {
            text_or(o, "/status/commonEncodingVersion", "<unset>")
        }),
        string("StorageVersions", "The version in which each server stores objects.", |o, _| json!(versions(o))),
        age(),
    ])]
}

/// Returns `server=version` for each server.
fn versions(storage_version: &Value) -> String {
    let records = items(storage_version, "/status/storageVersions").iter();
    let shown: Vec<String> = records
        .map(|record| format!("{}={}", str_at(record, "/apiServerID"), str_at(record, "/encodingVersion")))
        .collect();
    if shown.is_empty() { "<unset>".to_owned() } else { joined(shown.iter().map(String::as_str), ",") }
}
