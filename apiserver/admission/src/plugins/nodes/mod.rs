//! Plugins that look at nodes, or at what nodes write.

pub mod node_restriction;
pub mod taint_nodes_by_condition;
