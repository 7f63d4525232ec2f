//! The pod garbage collector: removes pods that nobody else can: of nodes that are gone, and too many that ended.
//!
//! Corresponds to pkg/controller/podgc.

pub mod controller;
pub mod plan;
