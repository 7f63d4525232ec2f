//! The three ways to patch an object that need no ownership.
//!
//! Corresponds to k8s.io/apiserver/pkg/endpoints/handlers patch.go.

pub mod apply;
pub mod defaults;
pub mod json_patch;
pub mod merge;
pub mod strategic;
pub mod fuzz;
