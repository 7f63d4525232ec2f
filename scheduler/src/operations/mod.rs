//! What an operator sees of a running scheduler: metrics, dumps, comparisons and explanations.
//!
//! Corresponds to pkg/scheduler/metrics and pkg/scheduler/backend/cache/debugger.

pub mod state_metrics;
pub mod resource_metrics;

// State that is shown when somebody asks.
pub mod dump;
pub mod comparison;
pub mod inspection;
pub mod pages;

pub use inspection::Inspection;
