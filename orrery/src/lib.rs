//! The launcher and the command line: one program that is every component.
//!
//! `orrery up` starts the others as processes; each of them is also a sub-command here.

pub mod cli;
pub mod certificates;
pub mod place;
pub mod up;
pub mod status;
pub mod down;
pub mod snapshot;
pub mod trace;
pub mod admin_kubeconfig;
pub mod certs;
pub mod health;
#[cfg(test)]
mod compose_file;

use component_base::command;
use std::process::ExitCode;

/// What `main` does.
pub fn main() -> ExitCode {
    command::parse().map_or_else(|code| code, cli::run)
}
