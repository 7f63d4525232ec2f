//! Plugins that check the namespace of the written object.

pub mod namespace_auto_provision;
pub mod namespace_exists;
pub mod namespace_lifecycle;
