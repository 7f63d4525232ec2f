//! The OpenAPI documents: the served paths and their types, generated from the resource table and the schemas. Pure
//! code.
//!
//! Corresponds to k8s.io/kube-openapi: `/openapi/v3` with one document per group and version, and `/openapi/v2`.
//!
//! Reading order: this file (the documents and when they are written); `parameters` and `operations` (the paths of a
//! resource); `type_names`, `dialect`, `definitions` and `custom_types` (the types); `render_v3` and `render_v2` (the
//! documents); `gnostic` and [`v2_protobuf`] (version 2 in protobuf).

mod parameters;
mod operations;
mod type_names;
mod dialect;
mod definitions;
mod custom_types;
mod render_v3;
mod render_v2;
mod gnostic;
pub mod v2_protobuf;

use bytes::Bytes;
use proto::gvk::api_version;
use proto::resources::Catalogue;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// One document as it is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    pub bytes: Bytes,
    /// A digest of the content: the `hash` in the index and the `ETag` of the response.
    pub hash: String,
}

impl Document {
    /// Creates a document whose hash is computed from its bytes.
    pub fn of(bytes: Bytes) -> Self {
        Self { hash: hexadecimal(&Sha256::digest(&bytes)), bytes }
    }
}

/// The documents of one snapshot of the resource table. Each is written at its first use.
pub struct Documents {
    catalogue: Arc<Catalogue>,
    /// The server's version: `v1.36.2`.
    version: String,
    v3: BTreeMap<(String, String), OnceLock<Document>>,
    index: OnceLock<Document>,
    v2: OnceLock<Document>,
    v2_protobuf: OnceLock<Document>,
}

impl Documents {
    pub fn new(catalogue: Arc<Catalogue>, version: &str) -> Self {
        let mut v3 = BTreeMap::new();
        for group in catalogue.groups() {
            for version in &group.versions {
                v3.insert((group.group.clone(), version.clone()), OnceLock::new());
            }
        }
        Self {
            catalogue,
            version: version.to_owned(),
            v3,
            index: OnceLock::new(),
            v2: OnceLock::new(),
            v2_protobuf: OnceLock::new(),
        }
    }

    /// Returns `/openapi/v3`: the index of the documents.
    pub fn v3_index(&self) -> &Document {
        self.index.get_or_init(|| document(&self.index_body()))
    }

    fn index_body(&self) -> Value {
        let mut paths = Map::new();
        for (group, version) in self.v3.keys() {
            let path = group_path(group, version);
            let hash = self.fingerprint(group, version);
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
        json!({"paths": paths})
    }

    /// Returns `/openapi/v3/apis/<group>/<version>` or `/openapi/v3/api/v1`.
    pub fn v3(&self, group: &str, version: &str) -> Option<&Document> {
        let slot = self.v3.get(&(group.to_owned(), version.to_owned()))?;
        Some(slot.get_or_init(|| {
            let body = render_v3::document(&self.catalogue, group, version, &self.version);
            Document { hash: self.fingerprint(group, version), ..document(&body) }
        }))
    }

    /// Returns `/openapi/v2`: all groups and versions in one document.
    pub fn v2(&self) -> &Document {
        self.v2.get_or_init(|| document(&render_v2::document(&self.catalogue, &self.version)))
    }

    /// Returns `/openapi/v2` in protobuf.
    pub fn v2_protobuf(&self) -> &Document {
        self.v2_protobuf.get_or_init(|| {
            let bytes = Bytes::from(v2_protobuf::encode(&render_v2::document(&self.catalogue, &self.version)));
            Document { hash: hexadecimal(&Sha256::digest(&bytes)), bytes }
        })
    }

    /// Returns a text that changes whenever a document does, without writing the document: the server's version, the
    /// rows, and the types of custom resources. Built-in types change only with the server's version.
    fn fingerprint(&self, group: &str, version: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.version);
        for target in self.catalogue.resources(group, version) {
            let served = target.served();
            digest.update(format!("\n{}/{} {:?} {:?}", served.resource, served.kind, served.verbs, target.row.scope));
            for part in &served.subresources {
                digest.update(format!(" {}", part.name));
            }
            if !served.schema.is_builtin() {
                digest.update(definitions::fingerprint(&served.schema));
            }
        }
        hexadecimal(&digest.finalize())
    }
}

/// Returns `api/v1` or `apis/apps/v1`.
fn group_path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{}", api_version(group, version)) }
}

fn document(body: &Value) -> Document {
    let bytes = Bytes::from(body.to_string());
    let hash = hexadecimal(&Sha256::digest(&bytes));
    Document { bytes, hash }
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02X}")).collect()
}

#[cfg(test)]
mod tests;
