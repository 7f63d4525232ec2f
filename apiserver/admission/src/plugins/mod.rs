//! The compiled-in plugins, one file each, in folders by the kinds of objects that they handle.
//!
//! Reading order: [`namespaces`] has the smallest ones, [`pods`] the most; [`resource_quota`] is the only one that writes.
//!
//! Corresponds to plugin/pkg/admission.

pub mod pod_parts;
pub mod finalizers;
pub mod pods;
pub mod namespaces;
pub mod nodes;
pub mod volumes;
pub mod pod_groups;
pub mod limit_ranger;
pub mod resource_quota;
pub mod event_rate_limit;
pub mod certificates;
pub mod default_class;
pub mod deny_service_external_ips;
pub mod owner_references_permission_enforcement;
pub mod always;
