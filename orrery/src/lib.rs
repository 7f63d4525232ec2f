//! The launcher and the command line: one program with every component.
//!
//! `orrery up` starts the components as processes. Each component is also a sub-command.

pub mod cli;
pub mod certificates;
pub mod place;
pub mod addons;
pub mod up;
pub mod status;
pub mod down;
pub mod explain;
pub mod sim;
pub mod snapshot;
pub mod node;
pub mod cloud;
pub mod trace;
pub mod admin_kubeconfig;
pub mod certs;
pub mod health;
#[cfg(test)]
mod compose_file;

use component_base::command;
use std::process::ExitCode;

/// Runs the program.
pub fn main() -> ExitCode {
    command::parse().map_or_else(|code| code, cli::run)
}
