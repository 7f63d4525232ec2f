//! Static pods: pods that a node has from files or a URL, and not from the API server.
//!
//! Corresponds to pkg/kubelet/config and pkg/kubelet/pod. A static pod runs whatever the API server says. For everybody
//! to see, its node keeps a mirror pod of it at the API server. Read `manifest` (what a pod becomes), `source` (where pods
//! come from), then `table` (those that run now); `fleet::mirror` writes the mirror pods.

pub mod manifest;
pub mod source;
pub mod table;
