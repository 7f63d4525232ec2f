//! The `proxy-sim` program.
//!
//! Corresponds to cmd/kube-proxy.

use std::process::ExitCode;

fn main() -> ExitCode {
    component_base::command::main("proxy-sim", "Simulated service proxies of all nodes", proxy_sim::run)
}
