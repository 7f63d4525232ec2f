//! The controllers of workloads: they keep as many pods as somebody wants, and replace them by those of a new template.
//!
//! Read `replicaset` first: it is the simplest. Corresponds to pkg/controller/{replicaset,deployment,statefulset,daemon,job,
//! cronjob,ttlafterfinished,disruption,podautoscaler}.

// What several of them need.
pub mod intstr;
pub mod template_hash;
pub mod controller_revision;
pub mod selector_text;

pub mod replicaset;
pub mod deployment;
pub mod statefulset;
pub mod daemonset;
pub mod job;
pub mod cronjob;
pub mod ttl_after_finished;
pub mod disruption;
pub mod horizontal_pod_autoscaler;
