//! Simulated kube-proxies: Services and EndpointSlices become the rules that each node would program.
//!
//! Read in this order: what is known (`model`), what a rule is (`rules`), how the one becomes the other
//! (`iptables`), and what keeps it current (`proxy`). Corresponds to pkg/proxy.

pub mod chain_names;
pub mod iptables;
pub mod model;
pub mod proxy;
pub mod rules;
