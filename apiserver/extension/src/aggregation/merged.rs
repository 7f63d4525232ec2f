//! `Merged`: this server's OpenAPI v2 document merged with the parts of other servers.
//!
//! Corresponds to k8s.io/kube-openapi/pkg/aggregator.

use bytes::Bytes;
use openapi::{Document, Documents, v2_protobuf};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const DEFINITION: &str = "#/definitions/";

/// Cache of the merged document. It is valid while its parts stay the same.
#[derive(Default)]
pub struct Merged(Mutex<Option<MergedDocument>>);

/// A merged document, and the parts that it was made from.
struct MergedDocument {
    own: String,
    others: Vec<Arc<Value>>,
    json: Arc<Document>,
    protobuf: Arc<Document>,
}

impl Merged {
    /// Returns this server's document merged with the parts of the others.
    pub fn with(&self, own: &Documents, others: Vec<Arc<Value>>, is_protobuf: bool) -> Arc<Document> {
        if others.is_empty() {
            return Arc::new(if is_protobuf { own.v2_protobuf().clone() } else { own.v2().clone() });
        }
        let mut merged = self.0.lock();
        let is_current = |parts: &&MergedDocument| {
            let same = |(a, b): (&Arc<Value>, &Arc<Value>)| Arc::ptr_eq(a, b);
            parts.own == own.v2().hash
                && parts.others.len() == others.len()
                && parts.others.iter().zip(&others).all(same)
        };
        if let Some(parts) = merged.as_ref().filter(is_current) {
            return if is_protobuf { parts.protobuf.clone() } else { parts.json.clone() };
        }
        let mut document: Value = serde_json::from_slice(&own.v2().bytes).expect("our own JSON");
        others.iter().for_each(|part| add(&mut document, part));
        let json = Arc::new(Document::of(Bytes::from(document.to_string())));
        let protobuf = Arc::new(Document::of(Bytes::from(v2_protobuf::encode(&document))));
        let answer = if is_protobuf { protobuf.clone() } else { json.clone() };
        *merged = Some(MergedDocument { own: own.v2().hash.clone(), others, json, protobuf });
        answer
    }
}

/// Returns the part of a document below a path prefix: its paths, and the definitions that they need.
pub fn part_of(document: &Value, prefix: &str) -> Value {
    let paths = document["paths"].as_object().into_iter().flatten();
    let own: Map<String, Value> =
        paths.filter(|(path, _)| format!("{path}/").starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect();
    let own = Value::Object(own);
    let mut visited = BTreeSet::new();
    let mut queue = Vec::new();
    references(&own, &mut |name| queue.push(name.to_owned()));
    let mut definitions = Map::new();
    while let Some(name) = queue.pop() {
        if !visited.insert(name.clone()) {
            continue;
        }
        if let Some(schema) = document["definitions"].get(&name) {
            references(schema, &mut |name| queue.push(name.to_owned()));
            definitions.insert(name, schema.clone());
        }
    }
    json!({"paths": own, "definitions": definitions})
}

/// Calls `found` with the name of every definition that a value refers to.
fn references(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value.as_str().filter(|_| key == "$ref").and_then(|text| text.strip_prefix(DEFINITION)) {
                    Some(name) => found(name),
                    None => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Replaces the names of definitions in the references of a value.
fn rename(value: &mut Value, names: &BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let name = value.as_str().filter(|_| key == "$ref").and_then(|text| text.strip_prefix(DEFINITION));
                match name.and_then(|name| names.get(name)) {
                    Some(new) => *value = json!(format!("{DEFINITION}{new}")),
                    None => rename(value, names),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, names)),
        _ => {}
    }
}

/// Adds a part to a document. A definition whose name is taken by a different definition gets a new name.
fn add(document: &mut Value, part: &Value) {
    let mut names = BTreeMap::new();
    for (name, schema) in part["definitions"].as_object().into_iter().flatten() {
        let taken = |name: &str| document["definitions"].get(name).is_some_and(|known| known != schema);
        if taken(name) {
            let next = (2..).map(|n| format!("{name}_v{n}")).find(|next| !taken(next));
            names.extend(next.map(|next| (name.clone(), next)));
        }
    }
    let mut part = part.clone();
    rename(&mut part, &names);
    for (name, schema) in part["definitions"].as_object().into_iter().flatten() {
        document["definitions"][names.get(name).unwrap_or(name)] = schema.clone();
    }
    for (path, item) in part["paths"].as_object().into_iter().flatten() {
        document["paths"][path] = item.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_takes_the_definitions_that_it_needs() {
        let reference = |name: &str| json!({"$ref": format!("{DEFINITION}{name}")});
        let document = json!({
            "paths": {"/apis/a/v1/books": {"get": reference("Book")}, "/apis/a/v1beta1/x": {}, "/version": {}},
            "definitions": {
                "Book": {"properties": {"page": reference("Page")}}, "Page": {"type": "string"}, "Other": {},
            },
        });
        let part = part_of(&document, "/apis/a/v1/");
        assert_eq!(part["paths"].as_object().unwrap().keys().collect::<Vec<_>>(), ["/apis/a/v1/books"]);
        assert_eq!(part["definitions"].as_object().unwrap().keys().collect::<Vec<_>>(), ["Book", "Page"]);

        let mut own = json!({"paths": {"/api": {}}, "definitions": {"Page": {"type": "integer"}, "Own": {}}});
        add(&mut own, &part);
        assert_eq!(own["definitions"]["Page"], json!({"type": "integer"}));
        assert_eq!(own["definitions"]["Page_v2"], json!({"type": "string"}));
        assert_eq!(own["definitions"]["Book"]["properties"]["page"], reference("Page_v2"));
        assert_eq!(own["paths"]["/apis/a/v1/books"]["get"], reference("Book"));
    }
}
