//! Explanations of the scheduler's decisions, as data.
//!
//! A cycle is pure: the same inputs give the same decision. `recorder` therefore keeps only the inputs and the result of an
//! attempt, and `explain` runs every filter and score on every node when somebody asks. Nothing here corresponds to
//! Kubernetes, which logs parts of it.
//!
//! ```text
//! attempt ─▶ recorder (a bounded ring) ─▶ explain ─▶ document ─▶ JSON, or rows ─▶ CSV, JSON lines, Parquet
//!                                            ▲
//!                                 what_if changes the profile; verify asks the reference evaluator
//! ```

pub mod attempt;
pub mod attempts;
pub mod recorder;

pub mod document;
pub mod group_preemption;
pub mod explain;
pub mod reason;
pub mod what_if;
pub mod verify;

// Tables for programs.
pub mod rows;
mod columns;
pub mod export;

pub use attempt::{Attempt, Outcome, QueueMove};
pub use attempts::Attempts;
pub use document::Explanation;
pub use recorder::{Limits, Recorder};

#[cfg(test)]
mod tests;
