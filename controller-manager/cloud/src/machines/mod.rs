//! The simulated-machine controller: where the cloud has a machine, a kubelet runs.
//!
//! In a real cloud a machine boots, and its kubelet starts and registers a Node. Here kubelet-sim plays the machines, and this
//! controller tells it which ones there are, through the ConfigMap that it follows. No original has such a controller.

pub mod plan;
pub mod controller;
