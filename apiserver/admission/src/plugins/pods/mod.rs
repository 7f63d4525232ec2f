//! Plugins that handle pods. [`service_account`] and [`priority`] are good ones to begin with.

pub mod always_pull_images;
pub mod default_toleration_seconds;
pub mod extended_resource_toleration;
pub mod image_policy_webhook;
pub mod limit_pod_hard_anti_affinity_topology;
pub mod pod_node_selector;
pub mod pod_security;
pub mod pod_toleration_restriction;
pub mod pod_topology_labels;
pub mod priority;
pub mod runtime_class;
pub mod service_account;
pub mod tolerations;
