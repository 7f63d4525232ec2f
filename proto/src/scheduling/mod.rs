//! What decides whether a pod may run on a node, as every component has to read it alike: node selectors, tolerations,
//! requests.
//!
//! Corresponds to k8s.io/component-helpers/scheduling/corev1 and k8s.io/component-helpers/resource.

pub mod node_selector;
pub mod requests;
pub mod tolerations;
