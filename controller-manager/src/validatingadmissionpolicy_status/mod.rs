//! The ValidatingAdmissionPolicy status controller warns of expressions that have type errors for the kinds they match.
//!
//! The API server stores an expression if it is valid for some object. The controller checks it against the schemas of
//! the kinds that its policy names, and writes warnings into the status. They do not change what is admitted.
//! Corresponds to pkg/controller/validatingadmissionpolicystatus.

pub mod matched;
pub mod schemas;
pub mod check;
pub mod controller;
