//! The checks that validation of all kinds is made of: a value with its path, and rules for names, metadata, selectors and
//! amounts.
//!
//! Corresponds to k8s.io/apimachinery/pkg/util/validation and pkg/api/validation.

pub mod at;
pub mod difference;
pub mod int_or_percent;
pub mod object_meta;
pub mod paths;
pub mod resource_names;
pub mod restore;
pub mod selector;
