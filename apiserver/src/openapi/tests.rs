//! The documents against what clients look for in them.

use super::*;
use std::collections::BTreeSet;

fn documents() -> Documents {
    Documents::new(Catalogue::builtin(), "v1.36.2")
}

fn v3(group: &str, version: &str) -> Value {
    serde_json::from_slice(&documents().v3(group, version).unwrap().bytes).unwrap()
}

/// Every `$ref` in a document, without its prefix.
fn references(value: &Value, prefix: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(target) = members.get("$ref").and_then(Value::as_str) {
                found.insert(target.strip_prefix(prefix).expect("references stay in the document").to_owned());
            }
            members.values().for_each(|member| references(member, prefix, found));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, prefix, found)),
        _ => {}
    }
}

#[test]
fn the_index_names_every_group_version_with_a_hash_that_stays() {
    let index: Value = serde_json::from_slice(&documents().v3_index().bytes).unwrap();
    let again: Value = serde_json::from_slice(&documents().v3_index().bytes).unwrap();
    assert_eq!(index, again);
    let url = index["paths"]["apis/apps/v1"]["serverRelativeURL"].as_str().unwrap();
    let hash = url.strip_prefix("/openapi/v3/apis/apps/v1?hash=").unwrap();
    assert_eq!(hash, documents().v3("apps", "v1").unwrap().hash);
    assert!(index["paths"]["api/v1"]["serverRelativeURL"].is_string());
    assert!(documents().v3("apps", "v2").is_none());
}

#[test]
fn every_reference_leads_to_a_definition() {
    for (group, version) in documents().v3.keys() {
        let document = v3(group, version);
        let mut found = BTreeSet::new();
        references(&document, "#/components/schemas/", &mut found);
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in found {
            assert!(schemas.contains_key(&name), "{group}/{version} lacks {name}");
        }
    }
    let v2: Value = serde_json::from_slice(&documents().v2().bytes).unwrap();
    let mut found = BTreeSet::new();
    references(&v2, "#/definitions/", &mut found);
    let definitions = v2["definitions"].as_object().unwrap();
    assert!(found.iter().all(|name| definitions.contains_key(name)));
}

#[test]
fn operation_ids_are_unique() {
    let v2: Value = serde_json::from_slice(&documents().v2().bytes).unwrap();
    let mut seen = BTreeSet::new();
    for (path, item) in v2["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap().iter().filter(|(method, _)| *method != "parameters") {
            let id = operation["operationId"].as_str().unwrap();
            assert!(seen.insert(id.to_owned()), "{method} {path} repeats {id}");
        }
    }
}

#[test]
fn a_deployment_has_the_paths_and_parameters_that_kubectl_looks_for() {
    let document = v3("apps", "v1");
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let patch = &item["patch"];
    assert_eq!(patch["operationId"], "patchAppsV1NamespacedDeployment");
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "kind": "Deployment", "version": "v1"})
    );
    let names: Vec<&str> = patch["parameters"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    let ids = [
        ("/apis/apps/v1/deployments", "get", "listAppsV1DeploymentForAllNamespaces"),
        ("/apis/apps/v1/namespaces/{namespace}/deployments", "get", "listAppsV1NamespacedDeployment"),
        ("/apis/apps/v1/namespaces/{namespace}/deployments", "delete", "deleteAppsV1CollectionNamespacedDeployment"),
        (
            "/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale",
            "put",
            "replaceAppsV1NamespacedDeploymentScale",
        ),
    ];
    for (path, method, id) in ids {
        assert_eq!(document["paths"][path][method]["operationId"], id);
    }
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

#[test]
fn types_carry_their_kinds_and_how_they_merge() {
    let document = v3("", "v1");
    let schemas = &document["components"]["schemas"];
    let kinds = |name: &str| schemas[name]["x-kubernetes-group-version-kind"].clone();
    assert_eq!(kinds("io.k8s.api.core.v1.Pod"), json!([{"group": "", "kind": "Pod", "version": "v1"}]));
    assert_eq!(kinds("io.k8s.api.core.v1.PodList"), json!([{"group": "", "kind": "PodList", "version": "v1"}]));
    let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
    let containers = &spec["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(spec["required"], json!(["containers"]));
    let metadata = &schemas["io.k8s.api.core.v1.Pod"]["properties"]["metadata"];
    let object_meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(metadata["allOf"], json!([{"$ref": object_meta}]));
    assert_eq!(metadata["default"], json!({}));
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["oneOf"],
        json!([{"type": "integer"}, {"type": "string"}])
    );
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
}
