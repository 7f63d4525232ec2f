//! The `apiserver` program.
//!
//! Corresponds to cmd/kube-apiserver.

use std::process::ExitCode;

fn main() -> ExitCode {
    component_base::command::main("apiserver", "Serves the Kubernetes API", apiserver::run)
}
