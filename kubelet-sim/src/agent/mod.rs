//! What a node's agent serves: logs, commands, attached terminals, ports, and its pods.
//!
//! Corresponds to pkg/kubelet/server. One process stands for many nodes; the Host header says which one is asked.

// Who may ask.
pub mod access;

// What a simulated container says, and what can be done inside; no IO.
pub mod output;
pub mod log_filter;
pub mod shell;
pub mod programs;
pub mod words;
pub mod foreseen;

// What there is to see, and how it gets out.
pub mod inside;
pub mod plain;
pub mod logs;
pub mod wire;
pub mod spdy;
pub mod fuzz;
pub mod streams;
pub mod upgrade;
pub mod wishes;
pub mod channels;
pub mod terminal;
pub mod commands;
pub mod pages;
pub mod forward;
pub mod routes;
