//! Plugins that handle Nodes, or restrict what nodes may write.

pub mod node_restriction;
pub mod taint_nodes_by_condition;
