//! The parts of the API that all kinds share.
//!
//! Corresponds to k8s.io/apimachinery/pkg/apis/meta/v1, pkg/labels, pkg/fields and pkg/api/resource.

pub mod condition;
pub mod field_selector;
pub mod label_selector;
pub mod list;
pub mod names;
pub mod node_labels;
pub mod node_taints;
pub mod owner;
pub mod quantity;
pub mod selector;
pub mod status;
pub mod time;

pub use crate::go_text;
