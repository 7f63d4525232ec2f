//! Plugins that handle Nodes, or restrict what nodes may write.

mod pod_certificate_request;
pub mod node_declared_feature_validator;
pub mod node_restriction;
pub mod taint_nodes_by_condition;
