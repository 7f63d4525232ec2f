//! Validates objects beyond their schema: rules across fields, immutable fields, references.
//!
//! Corresponds to pkg/apis/*/validation. Each function takes a value with its path (`At`) and adds all its errors to a list.

pub mod access;
pub mod api_services;
pub mod at;
pub mod autoscaling;
pub mod cluster;
pub mod conditions;
pub mod configuration;
pub mod cron_schedule;
pub mod devices;
pub mod difference;
pub mod endpoints;
pub mod events;
pub mod flow_control;
pub mod flow_schemas;
pub mod int_or_percent;
mod job_policies;
pub mod job_status;
pub mod jobs;
pub mod limits;
pub mod networking;
pub mod node_status;
pub mod object_meta;
mod paths;
pub mod persistent_volumes;
pub mod pod;
pub mod policies;
mod resource_names;
pub mod restore;
pub mod selector;
pub mod service;
pub mod service_addresses;
pub mod signing_requests;
pub mod storage;
pub mod volume_attachments;
mod volume_sources;
pub mod warnings;
pub mod webhooks;
pub mod workloads;
