//! Tests of a whole API server in this process, through its API.

mod admission_webhooks;
mod aggregation;
mod authentication;
mod authorization_reload;
mod conversion_webhooks;
mod custom_resources;
mod encryption;
mod etcd_servers;
mod flow_control;
mod quota;
mod request_trace;
mod service_cidrs;
mod stages;
mod strategies;
mod two_families;
