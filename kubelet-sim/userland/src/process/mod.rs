//! The processes of a simulated container, their descriptors, signals and time.
//!
//! Corresponds to a kernel, as far as programs notice it. A process is a future that is polled by hand. Nothing but
//! virtual time makes it go on. Read `proc` first: it is what a program sees. `processes` runs them.

pub mod signal;
pub mod pipe;
pub mod network;
pub mod machine;
pub mod privileges;
pub mod sink;
pub mod descriptor;
pub mod kernel;
pub mod sleep;
pub mod proc_files;
pub mod proc;
pub mod sockets;
pub mod outside;
pub mod streams;
pub mod processes;
