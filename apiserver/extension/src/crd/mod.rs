//! Custom resources: a CustomResourceDefinition becomes a row of the resource table while the server runs.
//!
//! Reading order: [`definition`] reads the object, [`validation`] checks it, [`conditions`] decides its status, and [`row`]
//! makes its row. [`strategy`] prepares and validates custom resources, [`rules`] evaluates the CEL rules of their schema,
//! and [`webhook_converter`] converts them between versions. [`serving`] follows the definitions and swaps the catalogue.
//! [`deletion`] and [`cleanup`] remove a definition with its objects. Requests for custom resources take the same path as
//! those for built-in ones. Corresponds to k8s.io/apiextensions-apiserver.

pub mod definition;
pub mod validation;
pub mod conditions;
pub mod row;
mod embedded;
pub mod rules;
pub mod strategy;
pub mod strategies;
pub mod review;
pub mod webhook_converter;
pub mod serving;
pub mod deletion;
pub mod cleanup;
