//! `portForward` and `podProxy`: connections to the simulated HTTP servers in a pod.
//!
//! Corresponds to k8s.io/kubelet/pkg/cri/streaming/portforward. Read `pages` (the servers) first, then `handler`.

pub mod pages;
pub mod handler;
