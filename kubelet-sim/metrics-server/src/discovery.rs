//! What the group offers: discovery and OpenAPI documents.
//!
//! Corresponds to k8s.io/metrics/pkg/apis/metrics/v1beta1.

use serde_json::{Value, json};

/// The group's path below that of the server.
pub const GROUP_VERSION_PATH: &str = "/apis/metrics.k8s.io/v1beta1";

pub fn groups() -> Value {
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group_of_list()]})
}

pub fn group() -> Value {
    let mut group = group_of_list();
    group["kind"] = json!("APIGroup");
    group["apiVersion"] = json!("v1");
    group
}

fn group_of_list() -> Value {
    let version = json!({"groupVersion": "metrics.k8s.io/v1beta1", "version": "v1beta1"});
    json!({"name": "metrics.k8s.io", "versions": [version], "preferredVersion": version})
}

pub fn resources() -> Value {
    let resource = |name: &str, kind: &str, is_namespaced: bool| json!({"name": name, "singularName": "", "namespaced": is_namespaced, "kind": kind, "verbs": ["get", "list"]});
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "metrics.k8s.io/v1beta1",
        "resources": [resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)],
    })
}

pub fn openapi_v2() -> Value {
    let definitions: serde_json::Map<String, Value> =
        KINDS.iter().map(|(kind, fields)| (definition_name(kind), schema(kind, fields, "#/definitions/"))).collect();
    json!({
        "swagger": "2.0", "info": {"title": "Kubernetes metrics", "version": "v1beta1"}, "paths": paths(),
        "definitions": definitions,
    })
}

pub fn openapi_v3_index() -> Value {
    let path = GROUP_VERSION_PATH;
    let key = path.trim_start_matches('/');
    json!({"paths": {key: {"serverRelativeURL": format!("/openapi/v3{path}")}}})
}

pub fn openapi_v3() -> Value {
    let schemas: serde_json::Map<String, Value> = KINDS
        .iter()
        .map(|(kind, fields)| (definition_name(kind), schema(kind, fields, "#/components/schemas/")))
        .collect();
    json!({
        "openapi": "3.0.0", "info": {"title": "Kubernetes metrics", "version": "v1beta1"}, "paths": paths(),
        "components": {"schemas": schemas},
    })
}

/// Returns the paths, by which clients find the kind of a resource.
fn paths() -> Value {
    let operation = |kind: &str, action: &str| {
        json!({"get": {
            "responses": {"200": {"description": "OK"}}, "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": "metrics.k8s.io", "version": "v1beta1", "kind": kind},
        }})
    };
    let path = |rest: &str| format!("{}{rest}", GROUP_VERSION_PATH);
    json!({
        path("/nodes"): operation("NodeMetrics", "list"),
        path("/nodes/{name}"): operation("NodeMetrics", "get"),
        path("/pods"): operation("PodMetrics", "list"),
        path("/namespaces/{namespace}/pods"): operation("PodMetrics", "list"),
        path("/namespaces/{namespace}/pods/{name}"): operation("PodMetrics", "get"),
    })
}

/// The kinds with their fields: name, type or `[]KIND`, and description.
const KINDS: [(&str, &[(&str, &str, &str)]); 3] = [
    ("NodeMetrics", &[TIMESTAMP, WINDOW, USAGE]),
    ("PodMetrics", &[TIMESTAMP, WINDOW, ("containers", "[]ContainerMetrics", "Usage of each running container.")]),
    ("ContainerMetrics", &[("name", "string", "Name of the container."), USAGE]),
];
const TIMESTAMP: (&str, &str, &str) = ("timestamp", "string", "End of the interval in which the usage was measured.");
const WINDOW: (&str, &str, &str) = ("window", "string", "Length of that interval.");
const USAGE: (&str, &str, &str) = ("usage", "quantities", "CPU and memory in use, as quantities by name.");

fn definition_name(kind: &str) -> String {
    format!("io.k8s.metrics.pkg.apis.metrics.v1beta1.{kind}")
}

fn schema(kind: &str, fields: &[(&str, &str, &str)], references: &str) -> Value {
    let mut properties = serde_json::Map::new();
    for (name, type_, description) in fields {
        let mut property = match (*type_, type_.strip_prefix("[]")) {
            (_, Some(item)) => {
                json!({"type": "array", "items": {"$ref": format!("{references}{}", definition_name(item))}})
            }
            ("quantities", _) => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            (type_, None) => json!({"type": type_}),
        };
        property["description"] = json!(description);
        properties.insert((*name).to_owned(), property);
    }
    let mut schema = json!({"type": "object"});
    if kind != "ContainerMetrics" {
        for (name, type_) in [("apiVersion", "string"), ("kind", "string"), ("metadata", "object")] {
            properties.insert(name.to_owned(), json!({"type": type_}));
        }
        schema["x-kubernetes-group-version-kind"] =
            json!([{"group": "metrics.k8s.io", "version": "v1beta1", "kind": kind}]);
    }
    schema["properties"] = Value::Object(properties);
    schema
}
