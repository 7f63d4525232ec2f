//! The rules that decide whether a pod may run on a node: node selectors, tolerations and requests. All components
//! share them.
//!
//! Corresponds to k8s.io/component-helpers/scheduling/corev1 and k8s.io/component-helpers/resource.

pub mod node_selector;
pub mod requests;
pub mod tolerations;
pub mod topology_labels;
