//! Writes OpenAPI version 2: every group and version in one document.

use super::definitions::{Definitions, bare_reference, gvk_value};
use super::dialect::Dialect;
use super::operations::{self, JSON, Operation, Path, YAML};
use super::parameters::Parameter;
use super::render_v3::reason;
use super::type_names;
use proto::resources::Catalogue;
use proto::schema::builtin_type;
use serde_json::{Map, Value, json};

pub fn document(catalogue: &Catalogue, server_version: &str) -> Value {
    let kinds = type_names::kinds(catalogue);
    let mut definitions = Definitions::new(Dialect::V2, &kinds);
    let mut paths = Map::new();
    for name in [type_names::STATUS, type_names::DELETE_OPTIONS, type_names::PATCH] {
        definitions.add(&builtin_type(name));
    }
    for group in catalogue.groups() {
        for target in group.versions.iter().flat_map(|version| catalogue.resources(&group.group, version)) {
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
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": server_version},
        "paths": paths,
        "definitions": definitions.finish(),
        "securityDefinitions": {"BearerToken": {
            "type": "apiKey", "description": "Bearer Token authentication", "name": "authorization", "in": "header",
        }},
        "security": [{"BearerToken": []}],
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
    let mut produces = match operation.answer {
        Some(_) => vec![JSON.to_owned(), YAML.to_owned()],
        None => vec!["*/*".to_owned()],
    };
    if operation.watches {
        produces.push(format!("{JSON};stream=watch"));
    }
    let consumes = operation.body.as_ref().map_or(&["*/*"] as &[&str], |(_, media)| media);
    let mut parameters: Vec<Value> = operation.parameters.iter().map(parameter).collect();
    if let Some((name, _)) = &operation.body {
        let about = match name.as_str() {
            type_names::DELETE_OPTIONS => "How it is deleted.",
            type_names::PATCH => "What is changed.",
            _ => "The whole object.",
        };
        let schema = bare_reference(Dialect::V2, name);
        let mut body = json!({"in": "body", "name": "body", "description": about, "schema": schema});
        if name != type_names::DELETE_OPTIONS {
            body["required"] = json!(true);
        }
        parameters.push(body);
    }
    let mut written = json!({
        "consumes": consumes,
        "description": operation.about,
        "operationId": operation.id,
        "produces": produces,
        "responses": responses(operation),
        "schemes": ["https"],
        "tags": [operation.tag],
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": gvk_value(&operation.gvk),
    });
    if !parameters.is_empty() {
        written["parameters"] = Value::Array(parameters);
    }
    written
}

fn responses(operation: &Operation) -> Value {
    let mut responses = Map::new();
    for code in operation.codes {
        let mut response = json!({"description": reason(*code)});
        if *code != 401 {
            response["schema"] = match &operation.answer {
                Some(name) => bare_reference(Dialect::V2, name),
                None => json!({"type": "string"}),
            };
        }
        responses.insert(code.to_string(), response);
    }
    Value::Object(responses)
}

fn parameter(parameter: &Parameter) -> Value {
    let mut written = json!({
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.about,
        "type": parameter.kind,
        "uniqueItems": true,
    });
    if parameter.place == "path" {
        written["required"] = json!(true);
    }
    written
}
