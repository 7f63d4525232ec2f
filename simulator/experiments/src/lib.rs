//! Experiments with scheduling: the study file, its clusters and workloads, the records of a run, and what follows from
//! them. Pure but for `files`: a study and a seed give the same bytes on every machine.
//!
//! The modules stand in reading order. `study` says what to run. `cluster` and `workload` turn its words into nodes and pods,
//! which an engine runs; `recording` makes a workload of what a real cluster did. The engine writes a `record` for each thing that happens, and a
//! `decision` for each attempt of the scheduler. `metrics` computes numbers from records
//! alone, `learning` has what an agent observes and is rewarded for, `compare` says which differences between policies are real, and `output` writes the files of a run.

pub mod problem;
pub mod units;
pub mod amounts;
pub mod draw;
pub mod files;
mod table;
pub mod metric_names;
pub mod study;
mod listing;
pub mod cluster;
pub mod load;
pub mod workload;
pub mod recording;
pub mod sources;
pub mod record;
pub mod decision;
pub mod manifest;
pub mod statistics;
pub mod metrics;
pub mod learning;
pub mod compare;
pub mod output;

pub use problem::Problem;
