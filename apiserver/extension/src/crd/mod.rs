//! Custom resources: a CustomResourceDefinition becomes a row of the resource table while the server runs.
//!
//! [`validation`] checks definitions, [`conditions`] decides their status, [`row`] makes the row, [`strategy`] is what
//! happens to its objects, [`rules`] are what their definition says of them in CEL, and [`serving`] follows the definitions and swaps the catalogue. Everything else that a
//! custom resource has, it has by the same path as a built-in one. Corresponds to k8s.io/apiextensions-apiserver.

pub mod cleanup;
pub mod conditions;
pub mod definition;
pub mod deletion;
mod embedded;
pub mod row;
pub mod rules;
pub mod serving;
pub mod strategies;
pub mod strategy;
pub mod review;
pub mod validation;
pub mod webhook_converter;
