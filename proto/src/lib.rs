//! The nouns of the API and their wire forms: objects, the resource table and the schema engine.
//!
//! Corresponds to k8s.io/api, k8s.io/apimachinery and the registry wiring of kube-apiserver. Pure: no IO,
//! no clock, no async runtime. Everything else in the workspace depends on this crate.

// The nouns.
pub mod fields;
pub mod gvk;
pub mod kinds;
pub mod meta;
pub mod object;

// The one table, and what it knows of each kind's fields.
pub mod resources;
pub mod schema;

// What objects take of a namespace's quota.
pub mod quota;

// Whether a pod may run on a node.
pub mod scheduling;

// How they look on the wire.
pub mod wire;

// What must hold whatever comes over it.
pub mod mutation;
pub mod fuzz;

pub use gvk::{Gvk, Gvr};
pub use kinds::Kind;
pub use meta::status::Status;
pub use object::Object;
