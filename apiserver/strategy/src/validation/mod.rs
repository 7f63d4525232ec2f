//! Validates objects beyond their schema: rules across fields, immutable fields, references.
//!
//! Corresponds to pkg/apis/*/validation. Each function takes a value with its path (`At`) and adds all its errors to a list.
//! The crate `field-checks` has what the checks of all kinds share.

pub mod access;
pub mod api_services;
pub mod autoscaling;
pub mod cluster;
pub mod conditions;
pub mod configuration;
pub mod cron_schedule;
pub mod devices;
pub mod endpoints;
pub mod events;
pub mod flow_control;
pub mod flow_schemas;
mod job_policies;
pub mod job_status;
pub mod jobs;
pub mod limits;
pub mod networking;
pub mod node_status;
pub mod persistent_volumes;
pub mod pod;
pub mod pod_certificates;
pub mod pod_groups;
pub mod policies;
pub mod service;
pub mod service_addresses;
pub mod signing_requests;
pub mod storage;
pub mod storage_version_migrations;
pub mod storage_versions;
pub mod trust_bundles;
pub mod volume_attachments;
mod volume_sources;
pub mod warnings;
pub mod webhooks;
pub mod workloads;

pub use field_checks::{at, difference, int_or_percent, object_meta, paths, resource_names, restore, selector};
