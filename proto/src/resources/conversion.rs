//! Kinds whose versions differ in shape: how one version is rewritten as the other.
//!
//! Corresponds to the conversion functions of pkg/apis/*/v1 that are written by hand.

pub mod event;
pub mod hpa;
mod hpa_annotations;
