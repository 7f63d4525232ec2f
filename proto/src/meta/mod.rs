//! The parts of the API that every kind shares.
//!
//! Corresponds to k8s.io/apimachinery/pkg/apis/meta/v1, pkg/labels, pkg/fields and pkg/api/resource.

pub mod status;
pub mod names;
pub mod selector;
pub mod label_selector;
pub mod field_selector;
pub mod quantity;
pub mod time;
pub mod owner;
pub mod condition;
pub mod list;
