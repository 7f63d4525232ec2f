//! The test harness: a whole control plane as processes over TLS, or inside one process in virtual time.

pub mod apiserver;
pub mod ask;
pub mod docker;
pub mod http_proxy;
pub mod in_process;
pub mod invitation;
pub mod kubectl;
pub mod minimal;
pub mod proc_fs;
pub mod processes;
pub mod programs;
pub mod simulation;
pub mod stand_ins;
pub mod store;
pub mod strace;
pub mod tcp_proxy;
pub mod wait;
