//! What an object of each kind may say, beyond what its schema can: cross-field rules, immutability, references.
//!
//! Corresponds to pkg/apis/*/validation. Functions take places (`At`) and add every error they find.

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
