//! What an object of each kind may say, beyond what its schema can: cross-field rules, immutability, references.
//!
//! Corresponds to pkg/apis/*/validation. Functions take places (`At`) and add every error they find.

pub mod at;
pub mod configuration;
pub mod object_meta;
pub mod pod;
