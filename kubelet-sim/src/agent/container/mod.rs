//! What a simulated container writes to its log, and its processes as a client looks at them.
//!
//! Read `output` first, then `log_filter`, which cuts a log to what a query asks for.

pub mod log_filter;
pub mod output;
pub mod running;
