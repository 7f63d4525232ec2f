//! The signers of certificate signing requests: their names and rules, and the authorities that sign for them.
//!
//! Corresponds to the signers of pkg/controller/certificates and to their flags.

pub mod names;
pub mod options;
