//! The plugins that are compiled in, one file each, in rooms by the kinds of objects that they look at.
//!
//! Corresponds to plugin/pkg/admission.

pub mod pod_parts;
pub mod pods;
pub mod namespaces;
pub mod nodes;
pub mod volumes;
pub mod limit_ranger;
pub mod resource_quota;
pub mod event_rate_limit;
pub mod certificates;
pub mod default_class;
pub mod deny_service_external_ips;
pub mod owner_references_permission_enforcement;
pub mod always;
