//! The nouns of the API and their wire forms: objects, the resource table and the schema engine.
//!
//! Corresponds to k8s.io/api, k8s.io/apimachinery and the registry wiring of kube-apiserver. Pure: no IO,
//! no clock, no async runtime. Everything else in the workspace depends on this crate.
//!
//! The modules stand in reading order, from the bottom to the top: each imports only those before it.

// The names of types and collections, and typed views of them.
pub mod gvk;
pub mod kinds;
pub mod fields;
pub mod finalizers;

// Text as Go's messages show it.
pub mod go_text;

// Request bodies as trees, without any type.
pub mod serializer;

// The parts that all kinds share: names, labels, quantities, times, `Status`.
pub mod meta;

// One stored object.
pub mod object;

// The types: what a value may be, its defaults, strict decoding, structural schemas.
pub mod schema;

// The one table of resources, with their columns and conversions.
pub mod resources;

// Answers: tables, partial objects, frames of a watch.
pub mod wire;

// The usage of quotas.
pub mod quota;

// Test equipment: seeded mutation of inputs, and the properties of the parsers.
pub mod mutation;
pub mod fuzz;

pub use gvk::{Gvk, Gvr};
pub use kinds::Kind;
pub use meta::status::Status;
pub use object::Object;
