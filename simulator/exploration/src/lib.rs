//! The parts of fault exploration that know nothing about clusters: many child processes, their results on disk, and
//! delta debugging.
//!
//! Read first: `campaign`, which tries one fault after another and goes on where it was interrupted.

pub mod pool;
pub mod campaign;
pub mod shrink;
