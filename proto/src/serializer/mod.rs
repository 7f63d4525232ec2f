//! Serializers: read request bodies in JSON, YAML and protobuf as trees, and write trees as JSON and YAML.
//!
//! Corresponds to k8s.io/apimachinery/pkg/runtime/serializer. Nothing here knows a type; `schema::decode` does.

pub mod depth;
pub mod field_order;
pub mod json;
pub mod json_syntax;
pub mod outline;
pub mod path;
pub mod protobuf;
pub mod yaml;

// The result of reading a body of any format.
pub mod document;

pub use document::{Document, Format};
