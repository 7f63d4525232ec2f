//! The HorizontalPodAutoscaler controller changes the size of a workload so that its metrics stay near their targets.
//!
//! Once a period it reads the scale of an autoscaler's target (`target`) and the metrics (`metrics_api`), and calculates
//! a size from each metric (`source`, `calculator`). The largest counts. Recent recommendations damp it, and policies
//! limit it (`behavior`). Corresponds to pkg/controller/podautoscaler.

// What is read.
pub mod mapper;
pub mod target;
pub mod samples;
pub mod metrics_api;

// The size that one metric asks for.
pub mod pods;
pub mod requests;
pub mod calculator;
pub mod source;

// The size that the target gets.
pub mod recommendation;
pub mod history;
pub mod policies;
pub mod behavior;

// What is written.
pub mod status;
pub mod plan;
pub mod memory;
pub mod selection;
pub mod metrics;
pub mod controller;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod calculator_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod round_tests;
