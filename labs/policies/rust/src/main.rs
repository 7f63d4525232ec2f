//! A scheduler with the two policies of this crate beside Kubernetes' own plugins.
//!
//! Corresponds to the main function of a scheduler that is built with cmd/kube-scheduler/app.

use std::process::ExitCode;
use std::sync::Arc;

fn main() -> ExitCode {
    component_base::command::main("policies", "Assigns pods to nodes, with two policies more", |config, env| {
        scheduler::run_with_plugins(config, env, Arc::new(|_, registry| policies::register(registry)))
    })
}
