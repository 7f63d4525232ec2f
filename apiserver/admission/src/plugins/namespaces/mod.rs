//! Plugins that look at the namespace of what is written.

pub mod namespace_auto_provision;
pub mod namespace_exists;
pub mod namespace_lifecycle;
