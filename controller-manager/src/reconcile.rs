//! The loops that run this crate's controllers, which controllers outside it use too.
//!
//! Corresponds to the worker and sync functions of every package below pkg/controller.

pub use client::reconcile::{PeriodicReconciler, Reconciler, run, run_periodically};
