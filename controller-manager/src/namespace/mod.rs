//! The Namespace controller deletes the content of a namespace that is being deleted, and then finalizes it.
//!
//! Corresponds to pkg/controller/namespace.

pub mod content;
pub mod conditions;
pub mod plan;
pub mod controller;
