//! What the controllers of the manager have in common: a row of the table, what a controller gets from it, and pods.
//!
//! Read in this order: `descriptor` (a row, and what a controller gets from it), `context`, and `pod_control`, which creates and
//! deletes pods. Corresponds to cmd/kube-controller-manager/app and to the files of pkg/controller itself.

// The flags.
pub mod flags;
pub mod signers;
pub mod attach_detach_options;
pub mod autoscaler_options;
pub mod endpoint_options;
pub mod leader_migration;
pub mod cloud_options;
pub mod device_options;
pub mod options;

// How the manager runs a controller.
pub mod clock;
pub mod context;
pub mod served;
pub mod resync;
pub mod descriptor;

// What several controllers need.
pub mod controller_ref;
pub mod actions;
pub mod sequence;
pub mod pod;
pub mod finalizer;
pub mod pod_template;
pub mod eviction;
pub mod indexes;
pub mod pod_state;
pub mod pod_control;
pub mod status_batch;
pub mod discovery;

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
