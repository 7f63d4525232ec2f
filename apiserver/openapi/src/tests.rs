//! Tests that the documents contain what clients look for.

mod decoded;

use super::*;
use proto::gvk::Gvr;
use proto::schema::TypeRef;
use proto::schema::structural::Structural;
use std::collections::BTreeSet;

fn documents() -> Documents {
    Documents::new(Catalogue::builtin(), "v1.36.2")
}

fn v3(group: &str, version: &str) -> Value {
    serde_json::from_slice(&documents().v3(group, version).unwrap().bytes).unwrap()
}

/// Collects every `$ref` in a document, without its prefix.
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

/// Returns the documents of the built-in kinds and of a custom one whose `spec` has these properties.
fn with_gadgets(spec: Value) -> Documents {
    let builtin = Catalogue::builtin();
    let config_maps = builtin.by_gvr(&Gvr::new("", "v1", "configmaps")).unwrap();
    let mut row = (*config_maps.row).clone();
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": spec}});
    row.prefix = Some("a.example/gadgets".into());
    let served = &mut row.served[0];
    (served.group, served.resource) = ("a.example".into(), "gadgets".into());
    (served.singular, served.kind) = ("gadget".into(), "Gadget".into());
    served.schema = TypeRef::custom("example.a.v1.Gadget", Arc::new(Structural::parse(&schema)));
    Documents::new(Arc::new(builtin.with(&[Arc::new(row)])), "v1.36.2")
}

/// Returns one property of each form that a definition can require.
fn every_sort_of_property() -> Value {
    json!({"type": "object", "required": ["size", "maybe"], "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 9.5, "exclusiveMaximum": true,
                 "multipleOf": 2, "default": 3, "description": "How large it is."},
        "name": {"type": "string", "pattern": "^a", "minLength": 0, "maxLength": 300, "enum": ["a", "ab"]},
        "maybe": {"type": "object", "nullable": true, "properties": {"x": {"type": "string"}}},
        "port": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "list": {"type": "array", "maxItems": 3, "minItems": 0, "x-kubernetes-list-type": "map",
                 "x-kubernetes-list-map-keys": ["n"], "items": {"type": "object", "required": ["n"],
                     "properties": {"n": {"type": "string"}, "deep": {"type": "array", "items": {"type": "boolean"}}}}},
        "map": {"type": "object", "maxProperties": 2, "additionalProperties": {"type": "array", "items": {"type": "number"}}},
        "any": {"type": "object", "additionalProperties": true},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"x": {"type": "string"}}},
        "opens": {"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"spec": {"type": "object"}}},
        "raw": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        "ruled": {"type": "string", "maxLength": 5, "x-kubernetes-validations": [{"rule": "self != 'x'"}]},
        "choice": {"type": "object", "oneOf": [{"required": ["a"]}], "properties": {"a": {"type": "string"}}},
    }})
}

#[test]
fn version_2_of_a_custom_kind_says_what_kubectl_copes_with() {
    let v2: Value = serde_json::from_slice(&with_gadgets(every_sort_of_property()).v2().bytes).unwrap();
    let spec = &v2["definitions"]["example.a.v1.Gadget"]["properties"]["spec"];
    assert_eq!(spec["required"], json!(["size"]), "what may be null cannot be required");
    let property = |name: &str| spec["properties"][name].clone();
    assert_eq!(
        property("size"),
        json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 9.5, "exclusiveMaximum": true,
               "multipleOf": 2, "default": 3, "description": "How large it is."})
    );
    assert_eq!(property("maybe"), json!({}));
    assert_eq!(property("port"), json!({"x-kubernetes-int-or-string": true}));
    assert_eq!(property("any"), json!({"type": "object", "additionalProperties": true}));
    assert_eq!(property("open"), json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(property("opens"), json!({"x-kubernetes-preserve-unknown-fields": true}));
    assert_eq!(
        property("raw"),
        json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true})
    );
    assert_eq!(property("choice"), json!({"type": "object", "properties": {"a": {"type": "string"}}}));
    let pod = property("pod");
    assert_eq!(pod["required"], json!(["kind", "apiVersion"]));
    let object_meta = "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(pod["properties"]["metadata"]["$ref"], object_meta);
    assert_eq!(property("list")["items"]["properties"]["deep"], json!({"type": "array", "items": {"type": "boolean"}}));
}

#[test]
fn the_protobuf_form_says_what_the_json_form_says() {
    let documents = with_gadgets(every_sort_of_property());
    let json: Value = serde_json::from_slice(&documents.v2().bytes).unwrap();
    let protobuf = decoded::document(&documents.v2_protobuf().bytes);
    for part in ["definitions", "paths"] {
        let (json, protobuf) = (json[part].as_object().unwrap(), protobuf[part].as_object().unwrap());
        for (name, said) in json {
            assert_eq!(protobuf.get(name), Some(said), "{name}");
        }
        assert_eq!(protobuf.len(), json.len());
        assert!(json.len() > 100, "{part}");
    }
    assert_eq!(protobuf, json);
}

#[test]
fn parameters_and_lists_in_version_2_are_described() {
    let v2: Value = serde_json::from_slice(&with_gadgets(json!({"type": "object"})).v2().bytes).unwrap();
    let is_described = |value: &Value| value["description"].as_str().is_some_and(|text| !text.is_empty());
    let mut mute = Vec::new();
    let (mut parameters, mut lists) = (0, 0);
    for (path, item) in v2["paths"].as_object().unwrap() {
        for (member, value) in item.as_object().unwrap() {
            let of_method = if member == "parameters" { value } else { &value["parameters"] };
            for parameter in of_method.as_array().into_iter().flatten() {
                parameters += 1;
                if !is_described(parameter) {
                    mute.push(format!("{member} {path} {}", parameter["name"]));
                }
            }
        }
    }
    for (name, definition) in v2["definitions"].as_object().unwrap() {
        let kinds = definition["x-kubernetes-group-version-kind"].as_array().into_iter().flatten();
        if !kinds.filter_map(|gvk| gvk["kind"].as_str()).any(|kind| kind.ends_with("List")) {
            continue;
        }
        lists += 1;
        if !is_described(definition) {
            mute.push(name.clone());
        }
        let fields = definition["properties"].as_object().unwrap();
        mute.extend(
            fields.iter().filter(|(_, field)| !is_described(field)).map(|(field, _)| format!("{name}.{field}")),
        );
    }
    assert_eq!(mute, [] as [String; 0]);
    assert!(parameters > 1000 && lists > 60, "{parameters} parameters, {lists} lists");
}
