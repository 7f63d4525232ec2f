//! The ValidatingAdmissionPolicy status controller: it tells of expressions that can never be right for what they match.
//!
//! An expression is stored if it can be right of some object. Here it is held against the schemas of the kinds that its
//! policy names, and what does not fit stands in the status as a warning; it changes nothing about what is admitted.
//! Corresponds to pkg/controller/validatingadmissionpolicystatus.

pub mod check;
pub mod controller;
pub mod matched;
pub mod schemas;
