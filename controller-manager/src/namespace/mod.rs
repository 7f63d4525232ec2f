//! The Namespace controller: empties a namespace that is being deleted, then lets it go.
//!
//! Corresponds to pkg/controller/namespace.

pub mod controller;
pub mod plan;
pub mod content;
pub mod conditions;
