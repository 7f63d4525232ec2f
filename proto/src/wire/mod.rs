//! The forms of answers: tables, objects in the requested version, frames of a watch.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers/response.go and k8s.io/apimachinery/pkg/watch.

pub mod shown;
pub mod table;
pub mod watch_frame;

// The serializers under the paths that the API server uses.
pub use crate::serializer::{Document, Format, document, field_order, json, json_syntax, yaml};
