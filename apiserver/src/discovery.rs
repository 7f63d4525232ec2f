//! Discovery documents: groups, versions and resources as the legacy lists and as the aggregated document.
//!
//! Pure functions of the resource table and of the versions that aggregated API servers serve. Corresponds to k8s.io/apiserver/pkg/endpoints/discovery and discovery/aggregated.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use extension::aggregation;
use extension::aggregation::table::Table;
use proto::gvk::api_version;
use proto::resources::catalogue::GroupVersions;
use proto::resources::{Catalogue, Resource, Scope, Served, Subresource, Target, Verb};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Builds `/api`: the versions of the core group.
pub fn core_versions(server_address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// Builds `/apis`: every group but the core one.
pub fn group_list(groups: &[GroupVersions]) -> Value {
    let groups: Vec<Value> = named(groups).map(group_body).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Builds `/apis/<group>`; `None` if there is no such group.
pub fn group(groups: &[GroupVersions], name: &str) -> Option<Value> {
    let mut body = group_body(named(groups).find(|group| group.group == name)?);
    body["kind"] = json!("APIGroup");
    body["apiVersion"] = json!("v1");
    Some(body)
}

/// Builds `/api/v1` or `/apis/<group>/<version>`; `None` if there is no such version.
pub fn resource_list(catalogue: &Catalogue, group: &str, version: &str) -> Option<Value> {
    let mut resources: Vec<Value> = Vec::new();
    for target in catalogue.resources(group, version) {
        let (row, served) = (&target.row, target.served());
        resources.push(resource_entry(row, served));
        resources.extend(sorted_subresources(served).into_iter().map(|part| subresource_entry(row, served, part)));
    }
    if resources.is_empty() {
        return None;
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": api_version(group, version),
        "resources": resources,
    });
    // The core group's list is older than the rule that every object has an `apiVersion`.
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// Builds the aggregated document (v2) of `/api` (the core group) or `/apis` (all other groups).
pub fn aggregated(catalogue: &Catalogue, table: &Table, core: bool) -> Value {
    let groups = aggregation::discovery::groups(catalogue.groups(), table);
    let wanted = groups.iter().filter(|group| group.group.is_empty() == core);
    let items: Vec<Value> = wanted.map(|group| aggregated_group(catalogue, table, group)).collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

/// Returns every group but the core one, which has no name.
fn named(groups: &[GroupVersions]) -> impl Iterator<Item = &GroupVersions> {
    groups.iter().filter(|group| !group.group.is_empty())
}

fn group_body(group: &GroupVersions) -> Value {
    let version = |version: &String| json!({"groupVersion": api_version(&group.group, version), "version": version});
    json!({
        "name": group.group,
        "versions": group.versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": group.versions.first().map(version),
    })
}

fn verb_names(verbs: &[Verb]) -> Vec<&'static str> {
    verbs.iter().map(|verb| verb.as_str()).collect()
}

/// Returns the verbs of a resource. Kubernetes lists those of custom resources in another order.
fn verbs_of(served: &Served) -> Vec<&'static str> {
    if served.schema.is_builtin() {
        return verb_names(served.verbs);
    }
    vec!["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
}

/// Returns the subresources in the order of their names.
fn sorted_subresources(served: &Served) -> Vec<&Subresource> {
    let mut parts: Vec<&Subresource> = served.subresources.iter().collect();
    parts.sort_by(|a, b| a.name.cmp(&b.name));
    parts
}

fn resource_entry(row: &Resource, served: &Served) -> Value {
    let mut entry = json!({
        "name": served.resource,
        "singularName": served.singular,
        "namespaced": row.scope == Scope::Namespaced,
        "kind": served.kind,
        "verbs": verbs_of(served),
    });
    add_names(&mut entry, served);
    if row.prefix.is_some() {
        entry["storageVersionHash"] = json!(storage_version_hash(row.storage_version()));
    }
    entry
}

fn subresource_entry(row: &Resource, served: &Served, part: &Subresource) -> Value {
    let mut entry = json!({
        "name": format!("{}/{}", served.resource, part.name),
        "singularName": "",
        "namespaced": row.scope == Scope::Namespaced,
        "kind": served.kind,
        "verbs": verb_names(part.verbs),
    });
    if let Some((group, version, kind)) = &part.kind {
        entry["kind"] = json!(kind);
        if (group, version) != (&served.group, &served.version) {
            entry["group"] = json!(group);
            entry["version"] = json!(version);
        }
    }
    entry
}

fn add_names(entry: &mut Value, served: &Served) {
    if !served.short_names.is_empty() {
        entry["shortNames"] = json!(served.short_names);
    }
    if !served.categories.is_empty() {
        entry["categories"] = json!(served.categories);
    }
}

/// Returns the first eight bytes of a hash of the storage version's name: clients see by it that the storage version has
/// changed.
///
/// Deviation: MutatingAdmissionPolicies, their bindings and CustomResourceDefinitions are stored in their version 1,
/// where Kubernetes still stores the beta, so their `storageVersionHash` differs.
fn storage_version_hash(stored: &Served) -> String {
    let digest = Sha256::digest(format!("{}/{}/{}", stored.group, stored.version, stored.kind));
    BASE64.encode(&digest[..8])
}

fn aggregated_group(catalogue: &Catalogue, table: &Table, group: &GroupVersions) -> Value {
    let versions: Vec<Value> = group
        .versions
        .iter()
        .map(|version| {
            if let Some(remote) = table.get(&(group.group.clone(), version.clone())) {
                return aggregation::discovery::version(remote);
            }
            let resources: Vec<Value> = catalogue.resources(&group.group, version).map(aggregated_resource).collect();
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let mut metadata = Map::new();
    if !group.group.is_empty() {
        metadata.insert("name".to_owned(), json!(group.group));
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(target: &Target) -> Value {
    let served = target.served();
    let mut entry = json!({
        "resource": served.resource,
        "responseKind": response_kind("", "", &served.kind),
        "scope": if target.row.scope == Scope::Namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": served.singular,
        "verbs": verbs_of(served),
    });
    add_names(&mut entry, served);
    let parts: Vec<Value> = sorted_subresources(served)
        .into_iter()
        .map(|part| {
            // Group and version are given only if they differ from the parent's.
            let kind = match &part.kind {
                Some((group, version, kind)) if (group, version) == (&served.group, &served.version) => {
                    response_kind("", "", kind)
                }
                Some((group, version, kind)) => response_kind(group, version, kind),
                None => response_kind("", "", &served.kind),
            };
            json!({"subresource": part.name, "responseKind": kind, "verbs": verb_names(part.verbs)})
        })
        .collect();
    if !parts.is_empty() {
        entry["subresources"] = json!(parts);
    }
    entry
}

fn response_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(list: &'a Value, name: &str) -> &'a Value {
        list["resources"].as_array().unwrap().iter().find(|entry| entry["name"] == name).unwrap()
    }

    #[test]
    fn the_core_list_has_resources_and_their_parts() {
        let list = resource_list(&Catalogue::builtin(), "", "v1").unwrap();
        assert!(list.get("apiVersion").is_none());
        let pods = json!({
            "name": "pods", "singularName": "pod", "namespaced": true, "kind": "Pod",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["po"], "categories": ["all"], "storageVersionHash": "xPOwRZ+Yhw8=",
        });
        assert_eq!(*find(&list, "pods"), pods);
        let eviction = json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true, "group": "policy", "version": "v1",
            "kind": "Eviction", "verbs": ["create"],
        });
        assert_eq!(*find(&list, "pods/eviction"), eviction);
        assert!(find(&list, "bindings").get("storageVersionHash").is_none());
    }

    #[test]
    fn both_versions_of_one_row_are_stored_as_one() {
        let catalogue = Catalogue::builtin();
        let hash = |version| {
            let list = resource_list(&catalogue, "autoscaling", version).unwrap();
            find(&list, "horizontalpodautoscalers")["storageVersionHash"].clone()
        };
        assert_eq!(hash("v1"), hash("v2"));
        let group = group(catalogue.groups(), "autoscaling").unwrap();
        assert_eq!(group["preferredVersion"]["groupVersion"], "autoscaling/v2");
    }

    #[test]
    fn the_aggregated_documents_hold_every_group_once() {
        let catalogue = Catalogue::builtin();
        let core = aggregated(&catalogue, &Table::new(), true);
        assert_eq!(core["items"].as_array().unwrap().len(), 1);
        assert_eq!(core["items"][0]["metadata"], json!({}));
        let others = aggregated(&catalogue, &Table::new(), false);
        assert_eq!(others["items"][0]["metadata"]["name"], "apiregistration.k8s.io");
        assert_eq!(others["items"].as_array().unwrap().len(), named(catalogue.groups()).count());
    }
}
