//! The wire forms: strict JSON, YAML, watch frames, tables.

pub mod document;
pub mod field_order;
pub mod json;
pub mod json_syntax;
pub mod outline;
pub mod protobuf;
pub mod shown;
pub mod table;
pub mod watch_frame;
pub mod yaml;

pub use document::{Document, Format};
