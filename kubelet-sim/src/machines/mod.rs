//! What happens to the machines of a fleet from outside: they join, fail, are cut off, and come back.
//!
//! Kubernetes has no object for a machine, only for what a kubelet says of it. So users write the ConfigMap `orrery-fleet`
//! in `kube-system`; it outlasts the Node object, and a machine that is off cannot answer for itself. `fleet_map` reads it,
//! `state` is what one machine is told to be, `failures` lets machines fail by themselves, and `shutdown` orders the
//! pods of a machine that shuts down. All of it is pure; the fleet acts on it.

pub mod state;
pub mod failure_model;
pub mod failures;
pub mod failure_file;
pub mod fleet_map;
pub mod shutdown;
