//! The simulated shell: what a command line in a simulated container prints, how long it sleeps and how it exits.
//!
//! There is no Kubernetes counterpart: a real container runs the programs of its image. Everything here is pure. Read
//! `command_line` (the parser) first, then `session` (the shell), `programs` and `entrypoint`.

pub mod command_line;
pub mod session;
pub mod programs;
pub mod entrypoint;
