//! Patches: defaults, the three kinds of patch, and server-side apply. Pure code: no IO, and time comes as an argument.
//!
//! Corresponds to patch.go of k8s.io/apiserver/pkg/endpoints/handlers and to the libraries behind it.
//!
//! Reading order: [`defaults`]; [`json_patch`], [`merge`] and [`strategic`] (the patches that need no ownership of
//! fields); [`apply`] (server-side apply and `managedFields`); [`fuzz`].

pub mod defaults;
pub mod json_patch;
pub mod merge;
pub mod strategic;
pub mod apply;
pub mod fuzz;
