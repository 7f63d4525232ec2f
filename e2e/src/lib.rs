//! The test harness: starts a whole control plane, as processes over TLS or inside one process in virtual time.

pub mod apiserver;
pub mod base_images;
pub mod bootstrap_token;
pub mod docker;
pub mod http_proxy;
pub mod in_process;
pub mod kubectl;
pub mod minimal;
pub mod proc_fs;
pub mod processes;
pub mod programs;
pub mod raw_request;
pub mod store;
pub mod strace;
pub mod tcp_proxy;
pub mod wait;
pub mod websocket;
