//! The controllers of certificate signing requests: one approves what nodes may have, one signs what is approved, one
//! clears away what is done with.
//!
//! Corresponds to pkg/controller/certificates.

pub mod conditions;
pub mod approving;
pub mod signing;
pub mod cleaner;

pub use crate::signers::{names as signers, options};
