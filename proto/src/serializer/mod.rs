//! Texts and trees: reads request bodies in JSON, YAML and protobuf, and writes trees in the forms that clients
//! compare.
//!
//! Corresponds to k8s.io/apimachinery/pkg/runtime/serializer. Nothing here knows a type: `schema` decodes what was
//! read.

pub mod depth;
pub mod field_order;
pub mod json;
pub mod json_syntax;
pub mod outline;
pub mod path;
pub mod protobuf;
pub mod yaml;

// Whatever its format, a body that has been read is one of these.
pub mod document;

pub use document::{Document, Format};
