//! Writes OpenAPI version 3: a self-contained document for one group and version.

use super::definitions::{Definitions, bare_reference, gvk_value};
use super::dialect::Dialect;
use super::operations::{self, JSON, Operation, Path, YAML};
use super::parameters::Parameter;
use super::type_names;
use proto::resources::Catalogue;
use proto::schema::builtin_type;
use serde_json::{Map, Value, json};

pub fn document(catalogue: &Catalogue, group: &str, version: &str, server_version: &str) -> Value {
    let kinds = type_names::kinds(catalogue);
    let mut definitions = Definitions::new(Dialect::V3, &kinds);
    let mut paths = Map::new();
    for name in [type_names::STATUS, type_names::DELETE_OPTIONS, type_names::PATCH] {
        definitions.add(&builtin_type(name));
    }
    for target in catalogue.resources(group, version) {
        let served = target.served();
        definitions.add(&served.schema);
        definitions.add_list(&served.schema, &served.kind);
        for part in &served.subresources {
            if let Some(carried) = type_names::of_subresource(served, part) {
                definitions.add(&carried);
            }
        }
        for path in operations::paths(target) {
            paths.insert(path.path.clone(), path_item(&path));
        }
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "components": {
            "schemas": definitions.finish(),
            "securitySchemes": {"BearerToken": {
                "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
            }},
        },
    })
}

fn path_item(path: &Path) -> Value {
    let mut item = Map::new();
    for operation in &path.operations {
        item.insert(operation.method.to_owned(), written(operation));
    }
    item.insert("parameters".into(), path.parameters.iter().map(parameter).collect());
    Value::Object(item)
}

fn written(operation: &Operation) -> Value {
    let mut body = json!({
        "tags": [operation.tag],
        "description": operation.about,
        "operationId": operation.id,
        "responses": responses(operation),
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": gvk_value(&operation.gvk),
    });
    if !operation.parameters.is_empty() {
        body["parameters"] = operation.parameters.iter().map(parameter).collect();
    }
    if let Some((name, media)) = &operation.body {
        let schema = json!({"schema": bare_reference(Dialect::V3, name)});
        let content: Map<String, Value> = media.iter().map(|media| ((*media).to_owned(), schema.clone())).collect();
        body["requestBody"] = json!({"content": content});
        if name != type_names::DELETE_OPTIONS {
            body["requestBody"]["required"] = json!(true);
        }
    }
    body
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Map::new();
    for code in operation.codes {
        let mut response = json!({"description": reason(*code)});
        if *code != 401 {
            response["content"] = content(operation);
        }
        responses.insert(code.to_string(), response);
    }
    Value::Object(responses)
}

fn content(operation: &Operation) -> Value {
    let Some(name) = &operation.answer else {
        return json!({"*/*": {"schema": {"type": "string"}}});
    };
    let schema = json!({"schema": bare_reference(Dialect::V3, name)});
    let mut media = vec![JSON.to_owned(), YAML.to_owned()];
    if operation.watches {
        media.push(format!("{JSON};stream=watch"));
    }
    Value::Object(media.into_iter().map(|media| (media, schema.clone())).collect())
}

pub fn reason(code: u16) -> &'static str {
    match code {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        _ => "Unauthorized",
    }
}

fn parameter(parameter: &Parameter) -> Value {
    let mut written = json!({
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.about,
        "schema": {"type": parameter.kind, "uniqueItems": true},
    });
    if parameter.place == "path" {
        written["required"] = json!(true);
    }
    written
}
