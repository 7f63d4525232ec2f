//! Decodes custom resources: metadata as a Go type, the rest by pruning with the structural schema.
//!
//! Corresponds to the schemaCoercingDecoder of k8s.io/apiextensions-apiserver/pkg/apiserver.

use super::super::builtin::OBJECT_META;
use super::super::builtin_type;
use super::super::structural::{Structural, plain_numbers, prune};
use super::place::Place;
use super::walk::Walk;
use serde_json::{Map, Value};

impl Walk {
    /// Decodes a whole custom resource. Validation finds the errors outside metadata later.
    pub fn custom(&mut self, schema: &Structural, value: &mut Value) {
        if let Some(metadata) = value.get_mut("metadata") {
            if metadata.is_null() {
                *metadata = Value::Object(Map::new());
            }
            let root = Place::root();
            self.reference(&builtin_type(OBJECT_META), metadata, &root.field("", "metadata"));
        }
        prune::prune(schema, value, &mut self.unknown);
        plain_numbers(value);
    }
}
