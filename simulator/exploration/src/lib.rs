//! The parts of fault exploration that know nothing about clusters: many child processes, the limit of their CPU time, their results on disk, and
//! delta debugging.
//!
//! Read first: `campaign`, which tries one fault after another and goes on where it was interrupted.

pub mod cpu_limit;
pub mod pool;
pub mod campaign;
pub mod shrink;
