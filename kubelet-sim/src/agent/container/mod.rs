//! A simulated container as the endpoints see it: its files and variables, and what it writes to its log.
//!
//! Read `context` first, then `output`, then `log_filter`, which cuts a log to what a query asks for.

pub mod file_modes;
pub mod context;
pub mod log_filter;
pub mod output;
