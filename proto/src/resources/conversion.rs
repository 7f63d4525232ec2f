//! Conversions between versions of a kind that have different fields.
//!
//! Corresponds to the conversion functions of pkg/apis/*/v1 that are written by hand.

pub mod event;
pub mod hpa;
mod hpa_annotations;
